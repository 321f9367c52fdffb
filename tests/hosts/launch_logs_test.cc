// Logs of hosts without a shared log directory: each host has its own /tmp.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/hosts/launch_hosts.h"

namespace muster::hosts {
namespace {

using testing::HasSubstr;

class LaunchLogs : public LaunchHosts {
 protected:
  std::string on_head(const std::string& command) const {
    LaunchRun run({command, "--log-dir", "/tmp/logs"}, lab_->environment(0), LAUNCH_PROGRAM,
                  [this](const std::string&) { return lab_->head().fork(0); });
    EXPECT_EQ(run.exit_code(), 0) << run.err();
    return run.out();
  }
  std::string job_of(int host) const {
    std::error_code none;
    for (const auto& job : std::filesystem::directory_iterator(lab_->temporary(host) + "logs", none))
      return job.path();
    return "";
  }
  std::string file_of(int host, const std::string& name) const {
    return read_file(job_of(host) + "/" + name, 1 << 28).value_or("(none)");
  }
};

TEST_F(LaunchLogs, WhatAHostPrintedUntilItWasCutOffIsAtTheLaunchersSideAndSoIsAllOfTheOthers) {
  lab_ = std::make_unique<Lab>(4);
  launch(4, {"--nodes", "3", "--log-dir", "/tmp/logs"},
         {"sh", "-c",
          "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && { seq 200000; exit; }; echo ready; "
          "i=0; while :; do i=$((i+1)); echo $RANK counts $i; sleep 0.02; done"});
  all_are_ready(3);
  const std::string log = "attempt_1/rank_2/stdout.log";
  ASSERT_TRUE(eventually([&] { return file_of(0, log).contains("2 counts 50\n"); })) << run_->err();
  const std::string before = file_of(2, log);
  lab_->isolate(2);
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), HasSubstr("node2: it was lost; the last output of its ranks may be missing here"));
  EXPECT_THAT(run_->err(), HasSubstr(" on h2\n"));
  const std::string here = file_of(0, log);
  EXPECT_TRUE(file_of(2, log).starts_with(here)) << here;
  EXPECT_GT(here.size() + 200, before.size()) << "some 50 ms before the cut";
  for (const auto& [host, rank] : {std::pair(1, 1), std::pair(3, 2)}) {
    const std::string second = fmt::format("attempt_2/rank_{}/stdout.log", rank);
    EXPECT_GT(file_of(0, second).size(), 1'000'000U);
    EXPECT_TRUE(file_of(0, second) == file_of(host, second)) << second;
  }
  const std::string first = fmt::format("attempt_1/rank_1/stdout.log");
  EXPECT_TRUE(file_of(0, first) == file_of(1, first));
  const std::string logs = on_head("logs");
  EXPECT_THAT(logs, HasSubstr("node2:2: 2 counts 50\n"));
  EXPECT_THAT(logs, HasSubstr("node3:2: 200000\n"));
  EXPECT_THAT(on_head("report"), HasSubstr("node2"));
}

// The agent is killed while it still has much to send.
TEST_F(LaunchLogs, WhatAKilledAgentHasNotSentComesFromTheOneThatIsStartedAfterIt) {
  lab_ = std::make_unique<Lab>(2);
  launch(2, {"--log-dir", "/tmp/logs"},
         {"sh", "-c", "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit; seq 2000000 >&2; exec sleep 1000"});
  const std::string log = "attempt_1/rank_1/stderr.log";
  const auto size_of = [&](int host) {
    std::error_code none;
    const auto bytes = std::filesystem::file_size(job_of(host) + "/" + log, none);
    return none ? 0 : bytes;
  };
  ASSERT_TRUE(eventually([&] { return size_of(1) > 10'000'000; })) << run_->err();
  kill(agent_on(1), SIGKILL);
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), testing::Not(HasSubstr("missing here")));
  EXPECT_GT(size_of(1), 10'000'000U);
  EXPECT_TRUE(file_of(0, log) == file_of(1, log)) << size_of(0) << " of " << size_of(1);
  expect_nothing_left();
}

}  // namespace
}  // namespace muster::hosts
