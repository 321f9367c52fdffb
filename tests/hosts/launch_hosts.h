// A job over the hosts of a Lab, for tests: runs `launch` on the head, and inspects the hosts.
#pragma once

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "common/base/file.h"
#include "tests/hosts/lab.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/process/run_facts.h"

namespace muster::hosts {

using namespace std::chrono_literals;

class LaunchHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_lab(); !why.empty()) GTEST_SKIP() << why;
  }
  // Starts a launch on the head, over h0, h1, ..., with a silence limit of 2 s.
  void launch(int hosts, const std::vector<std::string>& flags, const std::vector<std::string>& program,
              uid_t user = 0) {
    std::string names;
    for (int i = 0; i < hosts; ++i) names += (i == 0 ? "" : ",") + lab_->host(i).name();
    launch_on(names, flags, program, user);
  }
  void launch_on(const std::string& hosts, const std::vector<std::string>& flags,
                 const std::vector<std::string>& program, uid_t user = 0) {
    std::vector<std::string> words{"--hosts", hosts, "--silence-limit", "2", "--controller-grace", "4"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), program.begin(), program.end());
    run_ = std::make_unique<LaunchRun>(words, lab_->environment(0, user), LAUNCH_PROGRAM,
                                       [this, user](const std::string& directory) {
                                         EXPECT_EQ(chown(directory.c_str(), user, user), 0);
                                         return lab_->head().fork(user);
                                       });
  }
  void expect_nothing_left(std::chrono::milliseconds limit = 5s) const {
    for (int i = 0; i < lab_->size(); ++i) {
      EXPECT_TRUE(eventually([&] { return lab_->processes(i).empty(); }, limit))
          << "on h" << i << ": " << commands(i);
    }
  }
  std::string commands(int host) const {
    std::string all;
    for (const pid_t pid : lab_->processes(host))
      all += read_file(fmt::format("/proc/{}/cmdline", pid), 1 << 16).value_or("") + "\n";
    return all;
  }
  // The agent there: the older of the two, since its guardian started later.
  pid_t agent_on(int host) const {
    const auto agents = lab_->processes(host, "muster-agent");
    return agents.empty() ? 0 : *std::ranges::min_element(agents);
  }
  bool attempt(int number, std::chrono::seconds limit) const {
    const std::string directory = fmt::format("{}/attempt_{}", run_->job_directory(), number);
    return eventually([&] { return std::filesystem::exists(directory); }, limit);
  }
  int printed_count(const std::string& text) const { return count_in(run_->out(), text); }
  void all_are_ready(int ranks) const {
    ASSERT_TRUE(eventually([&] { return printed_count(": ready") == ranks; })) << run_->out() << run_->err();
  }

  std::unique_ptr<Lab> lab_;
  std::unique_ptr<LaunchRun> run_;
};

}  // namespace muster::hosts
