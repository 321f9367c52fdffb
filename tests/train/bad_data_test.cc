// Three ranks with data that is bad on one or all of them: a rank that has the bad data reports one error
// that names it, and all ranks end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>

#include "common/base/file.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::HasSubstr;

struct Case {
  std::string fault;
  std::string error;
  std::vector<int> ranks;  // that have the bad data
};

void PrintTo(const Case& a_case, std::ostream* out) {
  *out << a_case.fault;
}

class BadData : public testing::TestWithParam<Case> {};

TEST_P(BadData, TheRankThatHasItNamesItAndAllRanksEnd) {
  const auto& [fault, error, ranks] = GetParam();
  const ScratchDirectory scratch;
  const std::string file = scratch / "images.idx";
  ASSERT_TRUE(
      write_file_durably(file, std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x04\0\0\0\x04 only this", 26)));
  LaunchRun run(
      {"--gpus-per-node", "3", "--device", "cpu", "--max-restarts", "0", BAD_DATA_RANK, fault, file},
      {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(run.exit_code(), 1);
  EXPECT_THAT(ranks, testing::Contains(run.report()["culprit"]["rank"].get<int>())) << run.err();
  // LibTorch 2.15 names the operator.
  const std::string text = std::regex_replace(run.err(), std::regex("addmm: "), "");
  EXPECT_THAT(text, HasSubstr("failed with " + error)) << "in the verdict";
  for (const int rank : {0, 1, 2}) {
    const auto log =
        read_file(fmt::format("{}/attempt_1/rank_{}/stderr.log", run.job_directory(), rank), 1 << 20);
    if (std::ranges::find(ranks, rank) == ranks.end())
      EXPECT_THAT(log.value_or(""), testing::Not(HasSubstr("noise.idx"))) << rank;
  }
  EXPECT_TRUE(run.descendants().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Of, BadData,
    testing::Values(
        Case{"empty", "std::invalid_argument: DataLoader: noise.idx has no samples", {0, 1, 2}},
        Case{"few",
             "std::invalid_argument: DataLoader: noise.idx has 2 samples, fewer than the 3 ranks",
             {0, 1, 2}},
        Case{"truncated", "std::runtime_error: cannot read ", {0, 1, 2}},
        Case{"shape",
             "std::runtime_error: noise.idx: epoch 0, batch 1 (samples 10, 13, 16): "
             "cannot load sample 13 of noise.idx: "
             "its shape [11] is not that of the first sample of the batch, [12]",
             {1}},
        Case{"type",
             "std::runtime_error: noise.idx: epoch 0, batch 1 (samples 10, 13, 16): "
             "cannot load sample 13 of noise.idx: "
             "its type Int is not that of the first sample of the batch, Long",
             {1}},
        Case{"narrow",
             "c10::Error: mat1 and mat2 shapes cannot be multiplied (1x11 and 12x5) "
             "(in training with noise.idx, epoch 0, batch 4 (samples 13))",
             {1}},
        Case{"throws",
             "std::runtime_error: noise.idx: epoch 0, batch 1 (samples 10, 13, 16): "
             "cannot load sample 13 of noise.idx: torn image",
             {1}},
        Case{"throws_a_number",
             "std::runtime_error: noise.idx: epoch 0, batch 1 (samples 10, 13, 16): "
             "cannot load sample 13 of noise.idx: int, not a std::exception",
             {1}},
        Case{"blocks",
             "std::runtime_error: DataLoader: noise.idx gave no batch within 2 s: epoch 0, batch 1 (samples "
             "10, 13, 16)",
             {1}}),
    [](const auto& info) { return info.param.fault; });

// Rank 0 has one batch more than the others, which continue with what `then` says.
struct Unequal {
  std::string then;
  std::vector<std::string> errors;
  std::vector<int> ranks;
};

void PrintTo(const Unequal& unequal, std::ostream* out) {
  *out << unequal.then;
}

class UnequalBatches : public testing::TestWithParam<Unequal> {};

TEST_P(UnequalBatches, ARankThatWouldHangReportsThem) {
  const auto& [then, errors, ranks] = GetParam();
  LaunchRun run(
      {"--gpus-per-node", "3", "--device", "cpu", "--max-restarts", "0", BAD_DATA_RANK, "unequal_" + then},
      {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(run.exit_code(), 1);
  EXPECT_THAT(ranks, testing::Contains(run.report()["culprit"]["rank"].get<int>())) << run.err();
  for (const std::string& error : errors) EXPECT_THAT(run.err(), HasSubstr(error));
  EXPECT_THAT(run.err(), HasSubstr("unequal numbers of batches need DistributedDataParallel::join"));
  EXPECT_TRUE(run.descendants().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Of, UnequalBatches,
    testing::Values(
        Unequal{"leaves",
                {"(this rank has begun 3 reductions of gradients; rank ", " has ended after 2; unequal"},
                {1, 2}},
        Unequal{"barrier",
                {"DistributedDataParallel: this rank waits in reduction 3 of gradients, and rank ",
                 " has come to the end of its data after 2; unequal"},
                {0}},
        Unequal{"accumulates",  // rank 0 waits in the broadcast of buffers
                {"DistributedDataParallel: this rank waits in reduction 4 of gradients, and rank ",
                 " has come to the end of its data after 3; unequal"},
                {0}},
        Unequal{"second_step",  // rank 0 waits until the ranks agree on the order of the gradients
                {"DistributedDataParallel: this rank waits in reduction 2 of gradients, and rank ",
                 " has come to the end of its data after 1; unequal"},
                {0}},
        Unequal{"oom_safe",  // rank 0 waits in the broadcast of buffers of an OomSafeStep
                {"DistributedDataParallel: this rank waits in reduction 3 of gradients, and rank ",
                 " has come to the end of its data after 2; unequal"},
                {0}},
        Unequal{"streams", {" has come to the end of its data after 2; unequal"}, {0}},
        Unequal{"reduces",
                {"(this rank has come to the end of its data after 2 reductions of gradients; unequal"},
                {1, 2}}),
    [](const auto& info) { return info.param.then; });

// A rank is busy for longer than the others wait before they look whether a rank has left their loop. In
// equal_reductions, rank 0 has one batch more than the others, too few for another reduction.
class EqualBatches : public testing::TestWithParam<const char*> {};

TEST_P(EqualBatches, MayWaitForARankThatIsBusyBetweenEpochs) {
  LaunchRun run({"--gpus-per-node", "3", "--device", "cpu", "--max-restarts", "0", BAD_DATA_RANK, GetParam()},
                {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
}

INSTANTIATE_TEST_SUITE_P(Of, EqualBatches, testing::Values("equal", "equal_accumulates", "equal_reductions"),
                         [](const auto& info) { return std::string(info.param); });

// As in PyTorch, some samples are repeated.
TEST(FewerSamplesThanRanks, AreRepeated) {
  LaunchRun run({"--gpus-per-node", "3", "--device", "cpu", BAD_DATA_RANK, "few_padded"},
                {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
}

}  // namespace
}  // namespace muster
