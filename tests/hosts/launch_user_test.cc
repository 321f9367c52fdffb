// Jobs over hosts need no root, and keep keys and secrets out of sight.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hosts/launch_hosts.h"

namespace muster::hosts {
namespace {

using testing::HasSubstr;

class LaunchUser : public LaunchHosts {};

TEST_F(LaunchUser, AnOrdinaryUserRunsAJobByHisOwnSsh) {
  lab_ = std::make_unique<Lab>(2);
  launch(2, {"--gpus-per-node", "2"}, {"sh", "-c", "echo $(id -un) on $(hostname)"}, kTrainer);
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  for (const char* host : {"h0", "h1"})
    EXPECT_THAT(run_->out(), HasSubstr(std::string("trainer on ") + host));
  expect_nothing_left();
}

// An agent is killed, then a worker.
TEST_F(LaunchUser, AnOrdinaryUsersJobRecoversAsRootsDoes) {
  lab_ = std::make_unique<Lab>(3);
  launch(3, {"--nodes", "2"},
         {"sh", "-c",
          "echo ready as $(id -u) $TORCHELASTIC_RESTART_COUNT;"
          "[ $TORCHELASTIC_RESTART_COUNT = 2 ] || sleep 1000"},
         kTrainer);
  ASSERT_NO_FATAL_FAILURE(all_are_ready(2));
  ASSERT_NE(agent_on(1), 0);
  kill(agent_on(1), SIGKILL);
  ASSERT_NO_FATAL_FAILURE(all_are_ready(4));
  ASSERT_TRUE(eventually([&] { return !lab_->processes(0, "sleep").empty(); }));
  kill(lab_->processes(0, "sleep")[0], SIGKILL);
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_EQ(run_->report()["restarts"], 2) << run_->err();
  EXPECT_EQ(printed_count(fmt::format("ready as {} 2", kTrainer)), 2) << run_->out();
  expect_nothing_left();
}

// One secret is only in the user's environment and must not leave it; the other one is named by a flag and
// goes to workers.
class LaunchSecrets : public LaunchHosts {
 protected:
  static constexpr const char* kUnnamed = "unnamed-5f1c";
  static constexpr const char* kNamed = "named-9b2e";

  void TearDown() override {
    unsetenv("LAB_API_TOKEN");
    unsetenv("LAB_PASSWORD");
  }
  // Keys have 64 hexadecimal digits. So do the digests of delivered files, which are not secret.
  bool has_key(const std::string& text) const {
    std::size_t digits = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      const bool digit =
          i < text.size() && std::string_view("0123456789abcdef").find(text[i]) != std::string_view::npos;
      if (!digit && digits >= 64 && digests_.find(text.substr(i - digits, digits)) == std::string::npos)
        return true;
      digits = digit ? digits + 1 : 0;
    }
    return false;
  }
  void scan(const std::string& path, bool unnamed_allowed = false, bool named_allowed = false) {
    const std::string text = read_regular_file(path, 1 << 26).value_or("");
    ++scanned_;
    if (has_key(text)) seen_ += "a key in " + path + "\n";
    if (!unnamed_allowed && text.contains(kUnnamed)) seen_ += "the unnamed secret in " + path + "\n";
    if (!named_allowed && text.contains(kNamed)) seen_ += "the named secret in " + path + "\n";
  }
  void scan_processes(int host) {
    for (const pid_t pid : lab_->processes(host)) {
      const std::string environment = fmt::format("/proc/{}/environ", pid);
      const bool worker =
          read_regular_file(environment, 1 << 26).value_or("").contains(std::string("\0RANK=", 6));
      if (worker) ++workers_;
      scan(fmt::format("/proc/{}/cmdline", pid));
      scan(environment, host == 0, host == 0 || worker);  // on the head the user has set both
    }
  }
  // Skips the delivered programs, which are the launcher's own.
  void scan_files(const std::string& directory) {
    const auto denied = std::filesystem::directory_options::skip_permission_denied;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, denied)) {
      if (entry.is_regular_file() && !entry.is_symlink() &&
          !entry.path().string().contains("/.cache/muster/agent/"))
        scan(entry.path());
    }
  }

  std::string digests_, seen_;
  int scanned_ = 0, workers_ = 0;
};

TEST_F(LaunchSecrets, NoKeyAndNoSecretStandsInAnyCommandLineEnvironmentOrFile) {
  lab_ = std::make_unique<Lab>(3);
  setenv("LAB_API_TOKEN", kUnnamed, 1);
  setenv("LAB_PASSWORD", kNamed, 1);
  launch(3, {"--env", "LAB_PASSWORD"},
         {"sh", "-c", "echo ready ${#LAB_API_TOKEN} ${#LAB_PASSWORD}; sleep 1000"});
  all_are_ready(3);
  EXPECT_EQ(printed_count("ready 0 10"), 3) << run_->out();
  lab_->head().run({"sh", "-c", "find " + lab_->home(1) + "/.cache/muster -type f | xargs sha256sum"},
                   &digests_);
  EXPECT_THAT(digests_, HasSubstr("/agent/"));
  for (int i = 0; i < 3; ++i) {
    scan_processes(i);
    const std::string root = fmt::format("/proc/{}/root", lab_->host(i).pid());
    for (const std::string& directory : {lab_->home(i), lab_->temporary(i), root + "/run", root + "/dev/shm"})
      scan_files(directory);
  }
  scan_files(lab_->shared());  // logs, journal and plan
  EXPECT_GE(workers_, 3);
  EXPECT_GT(scanned_, 60);
  EXPECT_EQ(seen_, "");
  run_->signal(SIGINT);
  EXPECT_EQ(run_->exit_code(), 130);
  scan_files(run_->scratch().path());  // and the report
  EXPECT_EQ(seen_, "");
}

}  // namespace
}  // namespace muster::hosts
