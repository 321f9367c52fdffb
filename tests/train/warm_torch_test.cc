// LibTorch in executed and in forked ranks: seeds, threads, and a training that ends with the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <sstream>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::SizeIs;

struct Seen {
  std::multiset<std::string> draws, threads, sums;
};

// Runs two attempts of two ranks.
Seen run_ranks(bool forked, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{
      "--gpus-per-node", "2", "--device", "cpu", "--max-restarts", "1", forked ? "--warm" : "--no-warm",
      WARM_TORCH_RANK};
  words.insert(words.end(), arguments.begin(), arguments.end());
  LaunchRun run(words, {{"OMP_NUM_THREADS", "2"}});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  const std::string log = read_file(run.job_directory() + "/agent.node0.log", 1 << 20).value_or("");
  EXPECT_EQ(log.find("2 of 2 workers were forked") != std::string::npos, forked) << log;
  Seen seen;
  for (const int attempt : {1, 2}) {
    for (const int rank : {0, 1}) {
      const std::string file =
          fmt::format("{}/attempt_{}/rank_{}/stdout.log", run.job_directory(), attempt, rank);
      std::istringstream lines(read_file(file, 1 << 20).value_or(""));
      for (std::string line, name, value; std::getline(lines, line);) {
        std::istringstream(line) >> name >> value;
        if (name == "draw") seen.draws.insert(value);
        if (name == "threads") seen.threads.insert(value);
        if (name == "sum") seen.sums.insert(value);  // before LibTorch 2.11, Gloo prints other lines
      }
    }
  }
  EXPECT_THAT(seen.draws, SizeIs(4));
  return seen;
}

std::set<std::string> different(const std::multiset<std::string>& values) {
  return {values.begin(), values.end()};
}

class TorchRanks : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Started, TorchRanks, testing::Bool(),
                         [](const auto& info) { return info.param ? "Forked" : "Executed"; });

TEST_P(TorchRanks, RanksAndAttemptsDrawDifferentNumbersAndUseTheirThreads) {
  const Seen seen = run_ranks(GetParam(), {"parallel"});
  EXPECT_THAT(different(seen.draws), SizeIs(4));
  EXPECT_EQ(different(seen.threads), std::set<std::string>{"2"});
  EXPECT_THAT(different(seen.sums), SizeIs(1));
}

TEST_P(TorchRanks, KeepASeedSetBeforeInit) {
  EXPECT_EQ(different(run_ranks(GetParam(), {"seed"}).draws), std::set<std::string>{"0.882269263"});
}

std::string trained(bool forked, const std::string& checkpoints, const std::vector<std::string>& more) {
  std::vector<std::string> words{"--gpus-per-node",
                                 "3",
                                 "--device",
                                 "cpu",
                                 "--checkpoint-dir",
                                 checkpoints,
                                 "--max-restarts",
                                 "1",
                                 forked ? "--warm" : "--no-warm",
                                 TRAIN_PROGRAM,
                                 "--batch-size",
                                 "16",
                                 "--num-workers",
                                 "1",
                                 "--checkpoint-every",
                                 "5",
                                 "--max-steps",
                                 "16"};
  words.insert(words.end(), more.begin(), more.end());
  LaunchRun run(words);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  const std::string mark = "parameters xxh3 ";
  const std::size_t at = run.out().find(mark);
  return at == std::string::npos ? "" : run.out().substr(at + mark.size(), 32);
}

TEST(TorchTraining, ForkedRanksRecoverBitForBitLikeExecutedOnes) {
  ScratchDirectory scratch;
  const std::string executed = trained(false, scratch / "executed", {});
  EXPECT_THAT(executed, SizeIs(32));
  EXPECT_EQ(trained(true, scratch / "forked", {"--fail-at", "2:8"}), executed);
}

}  // namespace
}  // namespace muster
