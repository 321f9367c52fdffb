// A job in containers of one engine, for tests: runs `launch --image` on the engine's host, and inspects the
// containers. Each test checks that none is left.
#pragma once

#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "common/base/file.h"
#include "tests/docker/lab.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/process/run_facts.h"

namespace muster::docker {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

// Flags for tests in which an agent or the launcher falls silent. Other tests keep the default limits, since
// a busy machine may delay a process for as long as these.
inline const Words kShortLimits{"--silence-limit", "2", "--controller-grace", "4"};

// Sleeps in all attempts except this one.
inline Words ready_until(int attempt) {
  return {"sh", "-c",
          fmt::format(
              "echo ready $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = {} ] || sleep 1000",
              attempt)};
}

// All tests share one engine; a test that stops it starts it again.
class DockerLaunch : public testing::Test {
 protected:
  static void TearDownTestSuite() { lab_.reset(); }
  void SetUp() override {
    if (lab_ != nullptr) return;
    if (const std::string why = why_no_engine(); !why.empty()) GTEST_SKIP() << why;
    lab_ = std::make_unique<Lab>();
    engine().load("bookworm");
  }
  void TearDown() override {
    if (lab_ == nullptr) return;
    run_.reset();
    nothing_is_left();
  }
  static Engine& engine() { return lab_->engine; }
  static void nothing_is_left(std::chrono::milliseconds limit = 15s) {
    EXPECT_TRUE(eventually([] { return engine().containers().empty(); }, limit))
        << testing::PrintToString(engine().containers());
    EXPECT_TRUE(eventually([] { return engine().networks().empty(); }, limit))
        << testing::PrintToString(engine().networks());
    EXPECT_TRUE(eventually([] { return engine().processes().empty(); }, limit));
    EXPECT_TRUE(eventually([] { return engine().volumes().empty(); }, limit))
        << testing::PrintToString(engine().volumes());
  }

  struct Caller {
    uid_t user = 0;
    std::map<std::string, std::string> environment{};
  };
  // Runs in a directory of its own.
  static std::unique_ptr<LaunchRun> launched(const Words& flags, const Words& program, const Caller& caller) {
    Words words = flags;
    words.insert(words.end(), program.begin(), program.end());
    auto environment = caller.environment;
    environment.merge(lab_->environment());
    return std::make_unique<LaunchRun>(words, environment, LAUNCH_PROGRAM, [&](const std::string& directory) {
      EXPECT_EQ(chown(directory.c_str(), caller.user, caller.user), 0);
      EXPECT_EQ(chmod(directory.c_str(), 0755), 0);  // containers may run as another user
      const pid_t pid = lab_->host.fork(caller.user);
      if (pid == 0 && chdir(directory.c_str()) != 0) _exit(98);
      return pid;
    });
  }
  static std::unique_ptr<LaunchRun> launched(const Words& flags, const Words& program) {
    return launched(flags, program, {});
  }
  void launch(const Words& flags, const Words& program, const Caller& caller) {
    Words all{"--image", "bookworm"};
    all.insert(all.end(), flags.begin(), flags.end());
    run_ = launched(all, program, caller);
  }
  void launch(const Words& flags, const Words& program) { launch(flags, program, {}); }
  // Runs `launch WORDS...` to its end, in a directory of its own.
  static std::unique_ptr<LaunchRun> ended(const Words& words,
                                          std::map<std::string, std::string> environment = {}) {
    environment.merge(lab_->environment());
    auto run =
        std::make_unique<LaunchRun>(words, environment, LAUNCH_PROGRAM, [](const std::string& directory) {
          const pid_t pid = lab_->host.fork();
          if (pid == 0 && chdir(directory.c_str()) != 0) _exit(98);
          return pid;
        });
    run->exit_code();
    return run;
  }

  // Expects this exit code, and one line on stderr with these parts.
  static void expect_refusal(LaunchRun& run, int code, const Words& parts) {
    EXPECT_EQ(run.exit_code(), code) << run.err();
    EXPECT_EQ(count_in(run.err(), "\n"), 1) << run.err();
    for (const std::string& part : parts) EXPECT_THAT(run.err(), testing::HasSubstr(part));
    EXPECT_EQ(run.out(), "");
  }
  static void all_are_ready(const LaunchRun& run, int ranks, int attempt = 0) {
    const std::string text = fmt::format("ready {}\n", attempt);
    ASSERT_TRUE(eventually([&] { return count_in(run.out(), text) == ranks; })) << run.out() << run.err();
  }
  static std::string container_of(int node) {
    return engine().printed_by(
        {"ps", "--filter", fmt::format("label=muster.node={}", node), "--format", "{{.Names}}"});
  }
  static std::string network_of(int node) {
    return engine().printed_by({"inspect", "--format",
                                "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}}{{end}}",
                                container_of(node)});
  }
  // Whether this number of agents talk to the launcher over TLS: each has sent more than the two pieces of
  // the handshake.
  static bool by_network(int agents) {
    return eventually([&] {
      std::string connections;
      lab_->host.run({"ss", "-tinH", "state", "established"}, &connections);
      int speaking = 0;
      constexpr std::string_view kPieces = "data_segs_in:";
      for (std::size_t at = 0; (at = connections.find(kPieces, at)) != std::string::npos;) {
        at += kPieces.size();
        speaking += std::atoi(connections.c_str() + at) > 3 ? 1 : 0;
      }
      return speaking >= agents;
    });
  }
  // A job with two containers of two workers each, which end in the second attempt.
  void start_pair(const Words& flags = {}) {
    Words all{"--nodes", "2", "--gpus-per-node", "2"};
    all.insert(all.end(), flags.begin(), flags.end());
    launch(all, ready_until(1));
    ASSERT_NO_FATAL_FAILURE(all_are_ready(*run_, 4));
  }
  // The guardian: the only other process of the launcher's program.
  static pid_t guardian_of(const LaunchRun& run) {
    for (const pid_t pid : run.descendants())
      if (read_file(fmt::format("/proc/{}/comm", pid), 64).value_or("") == "launch\n") return pid;
    return 0;
  }

  static inline std::unique_ptr<Lab> lab_;
  std::unique_ptr<LaunchRun> run_;
};

}  // namespace muster::docker
