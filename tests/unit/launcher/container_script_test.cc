#include "launcher/core/fleet/container_script.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

#include "common/base/file.h"
#include "tests/scratch_directory.h"

namespace muster::launcher {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const AgentPlace kOwnPlace{
    .path = "/opt/muster/agent", .digest = "", .module = "/opt/muster/libmuster_tls.so"};
const std::string kModuleThere = "/muster/lib/muster/libmuster_tls.so";

// Runs scripts with sh. `docker` records its words, one per line, after a line "--".
class ContainerScript : public testing::Test {
 protected:
  ContainerScript() {
    plan_.job.job_id = "j1";
    plan_.job.log_directory = scratch_ / "logs/j1";
    plan_.remote.bootstrap = BootstrapKind::kSsh;
    plan_.remote.container.image = "debian:12";
    plan_.hosts = {{.name = "h0"}, {.name = "h1"}};
    docker_is("");
  }
  // `then`: what `docker` does afterwards.
  void docker_is(const std::string& then) const {
    std::ofstream(scratch_ / "docker")
        << "#!/bin/sh\n{ echo --; for word; do echo \"$word\"; done; } >>" << scratch_ / "words" << "\n"
        << then << "\n";
    std::filesystem::permissions(scratch_ / "docker", std::filesystem::perms::owner_all);
  }
  std::string heard(const std::string& script) const {
    const std::string remote = host_shell(plan_.remote, plan_.hosts[1], script).back();
    const std::string line =
        fmt::format("HOME={0} PATH={0}:/usr/bin:/bin; {1}", scratch_.path().string(), remote);
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(line.c_str(), "r"), pclose);
    std::string text;
    char bytes[4096];
    for (std::size_t got = 0; (got = fread(bytes, 1, sizeof bytes, pipe.get())) > 0;) text.append(bytes, got);
    return text;
  }
  // The words of each `docker` since the last call.
  std::vector<std::vector<std::string>> words() const {
    std::vector<std::vector<std::string>> all;
    std::istringstream text(read_file(scratch_ / "words", 1 << 20).value_or(""));
    for (std::string line; std::getline(text, line);) {
      if (line == "--")
        all.emplace_back();
      else
        all.back().push_back(line);
    }
    std::filesystem::remove(scratch_ / "words");
    return all;
  }
  std::string start(std::uint32_t incarnation = 1, const AgentPlace& place = kOwnPlace) const {
    return start_container_script(plan_, {NodeId(1), Incarnation(incarnation)}, place, kModuleThere,
                                  {"--stdio", "--identity", "job/a b/0/1", "[::1]:4711"});
  }

  ScratchDirectory scratch_;
  Plan plan_;
};

TEST_F(ContainerScript, StartsAContainerWithTheAgentAndItsArguments) {
  plan_.remote.container.mounts = {{"/work dir", "/work dir", false}, {"data", "/data", true}};
  heard(start());
  const auto all = words();
  ASSERT_EQ(all.size(), 1U);
  const auto& run = all[0];
  EXPECT_EQ(run.front(), "run");
  for (const char* word :
       {"--rm", "--interactive", "--pull=never", "--name=muster-j1-1", "--label=muster.job=j1",
        "--label=muster.node=1", "--label=muster.incarnation=1", "--cap-drop=ALL",
        "--security-opt=no-new-privileges", "--network=host", "--workdir=/",
        "--entrypoint=/muster/bin/muster-agent", "--mount=type=bind,source=/work dir,target=/work dir",
        "--mount=type=volume,source=data,target=/data,readonly",
        "--mount=type=bind,source=/opt/muster/agent,target=/muster/bin/muster-agent,readonly",
        "--mount=type=bind,source=/opt/muster/libmuster_tls.so,target=/muster/lib/muster/"
        "libmuster_tls.so,readonly"})
    EXPECT_THAT(run, Contains(word));
  EXPECT_THAT(run, Contains(fmt::format("--user={}:{}", getuid(), getgid())));
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES);
  EXPECT_THAT(run, Contains(fmt::format("--shm-size={}", pages / 2 * sysconf(_SC_PAGESIZE))));
  const std::vector<std::string> last(run.end() - 5, run.end());
  EXPECT_THAT(last, ElementsAre("debian:12", "--stdio", "--identity", "job/a b/0/1", "[::1]:4711"));
  EXPECT_TRUE(std::filesystem::is_directory(plan_.job.log_directory))
      << "a directory is mounted only where it is";
}

TEST_F(ContainerScript, PassesTheFlagsToDocker) {
  ContainerOptions& container = plan_.remote.container;
  container.shm_bytes = 1 << 20;
  container.memory_bytes = 1 << 28;
  container.cpus = 1.5;
  container.gpus = "device=0,1";
  container.network = "lab";
  container.user = "7:8";
  container.read_only = true;
  container.arguments = {{"ulimit", "memlock=-1"}, {"label", "a=b c"}};
  heard(start());
  const auto run = words().at(0);
  for (const char* word :
       {"--shm-size=1048576", "--memory=268435456", "--memory-swap=268435456", "--cpus=1.5",
        R"(--gpus="device=0,1")", "--network=lab", "--user=7:8", "--read-only", "--tmpfs=/tmp",
        "--tmpfs=/run", "--ulimit=memlock=-1", "--label=a=b c"})
    EXPECT_THAT(run, Contains(word));
  container.gpus = "2";
  heard(start());
  EXPECT_THAT(words().at(0), Contains("--gpus=2"));
}

TEST_F(ContainerScript, RemovesTheNodesEarlierContainerBeforeALaterStart) {
  heard(start(2));
  const auto all = words();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_THAT(all[0], ElementsAre("rm", "-f", "muster-j1-1"));
  EXPECT_THAT(all[1], Contains("--label=muster.incarnation=2"));
}

TEST_F(ContainerScript, StartsNothingOnAHostWithoutTheAgent) {
  const AgentPlace absent{
      .path = "", .digest = std::string(64, 'a'), .module = "lib/muster/libmuster_tls.so"};
  EXPECT_THAT(heard(start(1, absent)), StartsWith("muster-agent absent "));
  EXPECT_THAT(words(), IsEmpty());
}

TEST_F(ContainerScript, PullsByName) {
  heard(pull_script("localhost:5000/train:1.2"));
  EXPECT_THAT(words(), ElementsAre(ElementsAre("pull", "-q", "localhost:5000/train:1.2")));
}

TEST_F(ContainerScript, KillsTheContainerOfThisIncarnationOnly) {
  docker_is("case \"$*\" in \"ps \"*label=muster.incarnation=3*) echo ccc;; esac");
  heard(kill_container_script(plan_, {NodeId(1), Incarnation(3)}));
  EXPECT_THAT(words(),
              ElementsAre(ElementsAre("ps", "-q", "--filter", "label=muster.job=j1", "--filter",
                                      "label=muster.node=1", "--filter", "label=muster.incarnation=3"),
                          ElementsAre("kill", "ccc")));
  heard(kill_container_script(plan_, {NodeId(1), Incarnation(2)}));
  EXPECT_THAT(words(), ElementsAre(Contains("label=muster.incarnation=2")))
      << "another container runs by now";
}

TEST_F(ContainerScript, MountsADeliveredAgentFromItsDirectory) {
  const AgentPlace delivered{
      .path = "", .digest = std::string(64, 'a'), .module = "lib/muster/libmuster_tls.so"};
  const std::string script = start(1, delivered);
  EXPECT_THAT(
      script,
      HasSubstr("\"--mount=type=bind,source=$d/bin/muster-agent,target=/muster/bin/muster-agent,readonly\""));
  EXPECT_THAT(script, HasSubstr("\"--mount=type=bind,source=$d/lib/muster/libmuster_tls.so,target="));
}

// `docker ps` prints the incarnation and id of each container.
TEST_F(ContainerScript, SweepsOlderContainersOnly) {
  docker_is("case $1 in ps) echo 1 aaa; echo 2 bbb; echo 3 ccc;; esac");
  const AgentId third{NodeId(1), Incarnation(3)};
  EXPECT_EQ(heard(sweep_container_script(plan_, third, false)),
            "left 1 0 0 container-aaa\nleft 1 0 0 container-bbb\nswept\n");
  const auto looked = words();
  ASSERT_EQ(looked.size(), 2U) << "nothing is removed";
  EXPECT_THAT(looked[0],
              ElementsAre("ps", "-a", "--filter", "label=muster.job=j1", "--filter", "label=muster.node=1",
                          "--format", R"({{.Label "muster.incarnation"}} {{.ID}})"));
  EXPECT_THAT(heard(sweep_container_script(plan_, {NodeId(1), Incarnation()}, false)),
              HasSubstr("container-ccc"));
  words();
  heard(sweep_container_script(plan_, third, true));
  const auto removed = words();
  EXPECT_THAT(removed, Contains(ElementsAre("rm", "-f", "aaa")));
  EXPECT_THAT(removed, Contains(ElementsAre("rm", "-f", "bbb")));
  EXPECT_THAT(removed, Not(Contains(ElementsAre("rm", "-f", "ccc"))));
  const auto left = parse_leftover("left 1 0 0 container-aaa");
  ASSERT_TRUE(left);
  EXPECT_EQ(left->name, "container-aaa");
}

// Leftovers that the script could not look for may exist.
TEST_F(ContainerScript, AHostWhoseEngineDoesNotAnswerIsNotSwept) {
  docker_is("exit 1");
  EXPECT_EQ(heard(sweep_container_script(plan_, {NodeId(1), Incarnation()}, true)), "");
}

TEST_F(ContainerScript, EveryShellReadsTheSame) {
  plan_.remote.container.gpus = "device=0,1";
  const AgentPlace delivered{
      .path = "", .digest = std::string(64, 'a'), .module = "lib/muster/libmuster_tls.so"};
  for (const std::string& script : {start(1), start(2), start(2, delivered), pull_script("a"),
                                    kill_container_script(plan_, {NodeId(1), Incarnation(3)}),
                                    sweep_container_script(plan_, {NodeId(1), Incarnation(3)}, true)})
    EXPECT_EQ(script.find_first_of("'!\n"), std::string::npos) << script;
  const std::string command = host_shell(plan_.remote, plan_.hosts[1], start()).back();
  std::ofstream(scratch_ / "command") << command << "\n";
  std::vector<std::vector<std::string>> all;
  for (const char* shell : {"sh", "bash", "dash", "csh", "tcsh", "fish", "zsh", "ksh"}) {
    if (access(fmt::format("/usr/bin/{}", shell).c_str(), X_OK) != 0) continue;
    heard(fmt::format("{} -c \"$(cat {})\"", shell, scratch_ / "command"));
    const auto run = words();
    ASSERT_EQ(run.size(), 1U) << shell;
    EXPECT_THAT(run[0], Contains(R"(--gpus="device=0,1")")) << shell;
    all.push_back(run[0]);
    EXPECT_EQ(all.back(), all.front()) << shell;
  }
  EXPECT_GE(all.size(), 2U);
}

}  // namespace
}  // namespace muster::launcher
