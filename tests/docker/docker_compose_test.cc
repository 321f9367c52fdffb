// docker/: builds each target of the Dockerfile; the cluster of compose.yaml trains and loses a node.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <regex>
#include <sstream>

#include "common/base/file.h"
#include "tests/docker/image.h"
#include "tests/docker/lab.h"
#include "tests/invariants.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/scratch_directory.h"

namespace muster::docker {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kCompose = "/usr/bin/docker-compose";

// All tests of this file share one engine and one build context.
class DockerFolder : public testing::Test {
 protected:
  static void TearDownTestSuite() {
    engine_.reset();
    scratch_.reset();
  }
  void SetUp() override {
    if (engine_ == nullptr) {
      if (const std::string why = why_no_engine(); !why.empty()) GTEST_SKIP() << why;
      if (!std::filesystem::exists(kCompose))
        GTEST_SKIP() << "docker-compose is missing: ./dev test clusters installs it";
      engine_ = std::make_unique<Lab>();
      engine().load("sshd");
      scratch_ = std::make_unique<ScratchDirectory>();
      ASSERT_NO_FATAL_FAILURE(make_context(context(), {}));
    }
  }
  static const Engine& engine() { return engine_->engine; }

  static void make_context(const std::string& path, const std::vector<std::string>& flags) {
    std::vector<std::string> words{DOCKER_FOLDER "context.sh", "--build", BUILD_FOLDER};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {path, TRAIN_PROGRAM});
    std::string said;
    ASSERT_EQ(engine_->host.run(words, &said), 0) << said;
  }
  static void build(const std::string& target, const std::string& image, const std::string& path) {
    std::string said;
    ASSERT_EQ(engine().docker({"build", "--target", target, "--build-arg", "BASE=sshd", "--tag", image, path},
                              &said),
              0)
        << said;
  }
  // Trains for two steps in one container, with two workers.
  static void trains(const std::string& image) {
    std::string said;
    EXPECT_EQ(
        engine().docker({"run", "--rm", "--volume", kData + ":" + kData + ":ro", image, "launch", "--log-dir",
                         "/tmp/logs", "--gpus-per-node", "2", "train_fashion_mnist", "--max-steps", "2"},
                        &said),
        0)
        << said;
    EXPECT_THAT(said, HasSubstr("2 ranks succeeded"));
  }
  static std::string printed_in(const std::string& image, const std::string& script) {
    return engine().printed_by({"run", "--rm", image, "sh", "-c", script});
  }
  static std::string context() { return *scratch_ / "context"; }

  // docker-compose with the project's file, and a shorter training.
  static int compose(const std::vector<std::string>& words, std::string* output) {
    std::vector<std::string> all{"env", "MUSTER_BASE=sshd", "MUSTER_CONTEXT=" + context(),
                                 "MUSTER_DATA=" + kData,
                                 "MUSTER_PROGRAM=train_fashion_mnist --max-steps 140 --checkpoint-every 20"};
    for (const auto& [name, value] : engine().environment()) all.push_back(name + "=" + value);
    all.insert(all.end(), {kCompose, "--no-ansi", "--file", DOCKER_FOLDER "compose.yaml"});
    all.insert(all.end(), words.begin(), words.end());
    return engine_->host.run(all, output);
  }
  // Starts the cluster; down() removes it completely.
  static void up() {
    std::string said;
    ASSERT_EQ(compose({"up", "--detach"}, &said), 0) << said;
  }
  static void down() {
    std::string said;
    EXPECT_EQ(compose({"down", "--volumes"}, &said), 0) << said;
    EXPECT_THAT(engine().containers(), IsEmpty());
    EXPECT_THAT(engine().volumes(), IsEmpty());
    EXPECT_THAT(engine().networks(), IsEmpty());
  }
  static std::string launcher_said() {
    std::string said;
    EXPECT_EQ(engine().docker({"logs", "docker_launcher_1"}, &said), 0) << said;
    return said;
  }
  // Waits for the launcher's end; returns its exit code.
  static std::string waited_for() { return engine().printed_by({"wait", "docker_launcher_1"}); }
  static std::string digest(const std::string& said) {
    std::smatch found;
    return std::regex_search(said, found, std::regex("parameters xxh3 ([0-9a-f]{32})")) ? found[1].str() : "";
  }

  static inline const std::string kData = "/usr/share/datasets/fashion-mnist";

 private:
  static inline std::unique_ptr<Lab> engine_;
  static inline std::unique_ptr<ScratchDirectory> scratch_;
};

TEST(DockerContext, LeavesAFolderAloneThatItHasNotMade) {
  const ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "muster/docker");
  const std::string command = fmt::format(DOCKER_FOLDER "context.sh --build {} {} {} 2>/dev/null",
                                          BUILD_FOLDER, scratch.path().string(), TRAIN_PROGRAM);
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2);
  EXPECT_TRUE(std::filesystem::exists(scratch / "muster/docker"));
}

TEST(DockerContext, NamesABuildOfWhichThereIsOnlyAPart) {
  const ScratchDirectory scratch;
  const std::string build = scratch / "build";
  std::filesystem::create_directories(build);
  std::ofstream(build + "/cmake_install.cmake")
      << "file(INSTALL DESTINATION \"${CMAKE_INSTALL_PREFIX}/lib\" TYPE FILE FILES \"/nowhere/lib.a\")\n";
  const std::string said = scratch / "said";
  const std::string command = fmt::format(DOCKER_FOLDER "context.sh --build {} {} {} >{} 2>&1", build,
                                          scratch / "context", TRAIN_PROGRAM, said);
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2);
  EXPECT_EQ(read_file(said, 1 << 16).value_or(""),
            "context.sh: cannot install " + build +
                ", which may be a partial build, as ./dev demo makes: run ./dev build first (file "
                "INSTALL cannot find \"/nowhere/lib.a\": No such file or directory.)\n");
}

TEST_F(DockerFolder, TheTargetForCpusTrains) {
  ASSERT_NO_FATAL_FAILURE(build("runtime", "muster-cpu", context()));
  trains("muster-cpu");
  EXPECT_EQ(printed_in("muster-cpu", "find / -name 'libtorch_cuda*' -o -name 'libmuster_nccl*' 2>/dev/null"),
            "");
}

#ifdef HAS_CUDA
TEST_F(DockerFolder, TheTargetForGpusHasTheWheelsCudaLibraries) {
  const ScratchDirectory scratch;
  ASSERT_NO_FATAL_FAILURE(make_context(scratch / "context", {"--cuda"}));
  ASSERT_NO_FATAL_FAILURE(build("cuda", "muster-cuda", scratch / "context"));
  trains("muster-cuda");
  const std::string libraries = printed_in("muster-cuda", "ldd /usr/local/lib/libmuster_nccl.so");
  EXPECT_THAT(libraries, HasSubstr("/opt/libtorch/torch/lib/../../nvidia/nccl/lib/libnccl.so.2"));
  EXPECT_THAT(libraries, Not(HasSubstr("not found")));
  // cuDNN loads its parts by name.
  EXPECT_NE(printed_in("muster-cuda", "ls /opt/libtorch/nvidia/cudnn/lib"), "libcudnn.so.9");
  engine().printed_by({"image", "rm", "muster-cuda"});
}
#endif

TEST_F(DockerFolder, TheClusterRecoversFromAKilledNodeWithTheUndisturbedResult) {
  std::string said;
  ASSERT_EQ(compose({"up", "--detach", "--no-deps", "launcher"}, &said), 0) << said;
  const auto waits = [&] {  // for its nodes, which have not started
    std::string processes;
    return engine().docker({"top", "docker_launcher_1"}, &processes) == 0 && processes.contains("sleep 0.2");
  };
  ASSERT_TRUE(eventually(waits)) << launcher_said();
  ASSERT_NO_FATAL_FAILURE(up());
  ASSERT_EQ(waited_for(), "0") << launcher_said();
  const std::string calm = launcher_said();
  EXPECT_THAT(calm, HasSubstr("4 ranks succeeded"));
  EXPECT_THAT(calm, Not(HasSubstr("restart")));
  ASSERT_NO_FATAL_FAILURE(down());

  ASSERT_NO_FATAL_FAILURE(up());
  const auto committed = [&] {
    std::string status;
    return compose({"exec", "-T", "launcher", "launch", "status"}, &status) == 0 &&
           status.find("committed up to step") != std::string::npos;
  };
  ASSERT_TRUE(eventually(committed, 120s)) << launcher_said();
  engine().printed_by({"kill", "docker_node2_1"});
  ASSERT_EQ(waited_for(), "0") << launcher_said();
  const std::string hit = launcher_said();
  EXPECT_THAT(hit, HasSubstr("node1 (node2) was lost"));
  EXPECT_THAT(hit, HasSubstr("resumed at step"));
  EXPECT_THAT(hit, HasSubstr("4 ranks succeeded"));
  EXPECT_THAT(hit, HasSubstr("after 1 restart"));
  ASSERT_EQ(digest(calm).size(), 32U) << calm;
  invariants::ends_as_undisturbed(digest(hit), digest(calm));
  down();
}

TEST_F(DockerFolder, NoPrivateKeyIsInAnImageOrWithTheOtherSide) {
  ASSERT_NO_FATAL_FAILURE(up());
  const std::string find =
      "grep -rlI -- '-----BEGIN OPENSSH PRIVATE KEY' /home /keys /etc/ssh /root 2>/dev/null || true";
  EXPECT_EQ(printed_in("muster", find), "");
  EXPECT_EQ(engine().printed_by({"exec", "docker_node1_1", "sh", "-c", find}), "/home/muster/host_key");
  EXPECT_EQ(engine().printed_by({"exec", "docker_launcher_1", "sh", "-c", find}),
            "/home/muster/.ssh/id_ed25519");
  // A key other than the node's own is refused.
  engine().printed_by({"exec", "docker_node1_1", "sh", "-c", "cp /keys/hosts/node2 /keys/hosts/node1"});
  std::string said;
  EXPECT_EQ(
      engine().docker({"exec", "docker_launcher_1", "ssh", "-o", "BatchMode=yes", "node1", "true"}, &said),
      255);
  EXPECT_THAT(said, HasSubstr("Host key verification failed"));
  down();
}

}  // namespace
}  // namespace muster::docker
