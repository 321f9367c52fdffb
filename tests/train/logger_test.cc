// A logger in a training: which rank writes, and which values are reduced. A training with killed ranks must
// log each step once.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/fake_agent.h"
#include "tests/require.h"
#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct LoggedRow {
  std::int64_t step = 0;
  double mean_rank = 0;
};
std::vector<LoggedRow> logged_rows(const std::string& run) {
  std::vector<LoggedRow> rows;
  std::ifstream file(run + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    rows.push_back({row.at("step"), row.at("mean_rank")});
  }
  return rows;
}

// Makes nine steps, and saves after every second one.
void train_and_log(Job& job, const std::string& scratch, std::int64_t kill_at) {
  torch::set_num_threads(1);
  const NoiseDataset dataset(64);
  auto model = DistributedDataParallel(SmallNet(), job);
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  DataLoader loader(dataset, {.batch_size = 2}, job);
  Checkpointer checkpoints(job, {.every = 2, .directory = scratch + "/checkpoints"});
  TrainState state(model, optimizer, loader);
  Logger logger(job, scratch + "/run");
  state.add("logger", logger);
  checkpoints.restore(state);
  for (auto& batch : loader.epochs(1)) {
    if (checkpoints.steps() == 9) break;
    train_one(model, optimizer, batch);
    logger.add_scalar("mean_rank", job.rank(), checkpoints.steps() + 1, ReduceOp::kSum);
    checkpoints.step(state);
    checkpoints.wait();
    if (checkpoints.steps() == kill_at) std::raise(SIGKILL);
  }
}

TEST(Logger, KilledTrainingsHaveEachStepOnce) {
  ScratchDirectory scratch;
  for (const std::int64_t kill_at : {3, 5, 7})
    EXPECT_ANY_THROW(spawn([&](Job& job) { train_and_log(job, scratch.path(), kill_at); }, 2));
  spawn([&](Job& job) { train_and_log(job, scratch.path(), 0); }, 2);
  const auto rows = logged_rows(scratch / "run");
  ASSERT_EQ(rows.size(), 9U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(rows[i].mean_rank, 1);
  }
  EXPECT_FALSE(std::filesystem::exists(scratch / "run/before-1"));
}

TEST(Logger, AcceptsTensorsOfAllKinds) {
  ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        Logger logger(job, scratch / "run", {.csv = false});
        logger.add_histogram("weights", torch::ones({2, 3}, at::kBFloat16), 1);
        logger.add_image("grey", torch::rand({5, 7}), 1);
        logger.add_image("bytes", torch::full({3, 5, 7}, 9, at::kByte), 1);
        logger.add_hparams({{"layers", 3}, {"lr", 0.5}, {"name", "small"}, {"warm", true}});
        EXPECT_THAT([&] { logger.add_image("x", torch::ones({2, 5, 7}), 1); },
                    ThrowsMessage<std::invalid_argument>(HasSubstr("the image 'x' is [2, 5, 7] of Float")));
        EXPECT_THROW(Logger(job, ""), std::invalid_argument);
        require(!testing::Test::HasFailure(), "refusals");
      },
      1);
  EXPECT_FALSE(std::filesystem::exists(scratch / "run/metrics.csv"));
  EXPECT_GT(std::distance(std::filesystem::directory_iterator(scratch / "run"), {}), 1);
}

TEST(Logger, RefusesTagsThatAreMembersOfEachRowOnAllRanks) {
  ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        Logger logger(job, scratch / "run");
        const auto refused = [](const auto& log) {
          try {
            log();
          } catch (const std::invalid_argument& error) {
            return std::string(error.what()).starts_with("Logger: '");
          }
          return false;
        };
        require(refused([&] { logger.add_scalar("step", 1, 1); }), "step");
        require(refused([&] { logger.add_scalar("time", 1, 1, ReduceOp::kSum); }), "time");
        require(refused([&] { logger.log_metrics({{"loss", 1}, {"hparams", 1}}, 1); }), "hparams");
        require(refused([&] { logger.add_text("time", "noon", 1); }), "a text");
        require(refused([&] { logger.add_hparams({}, {{"step", 1}}); }), "a metric");
        logger.add_hparams({{"step", 1}, {"time", 2.5}});  // allowed: they are in an object of their own
        Logger(job, scratch / "events", {.jsonl = false}).add_scalar("step", 1, 1);
        logger.add_scalar("loss", 0.5, 7);
      },
      2);
  std::ifstream file(scratch / "run/metrics.jsonl");
  std::string first, second, third;
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_EQ(nlohmann::json::parse(first).at("hparams").at("step"), 1);
  EXPECT_EQ(nlohmann::json::parse(second).at("step"), 7);
  EXPECT_FALSE(std::getline(file, third));
}

TEST(Logger, ReportsItsScalarsOnlyInASweepsTrial) {
  spawn(
      [](Job&) {
        const ScratchDirectory scratch;
        FakeAgent agent(scratch / "agent");
        for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
        setenv("MUSTER_SOCKET", agent.path().c_str(), 1);
        Job job = init();
        Logger logger(job, scratch / "run");
        logger.add_scalar("before", 1, 1);
        setenv("MUSTER_TRIAL", "7", 1);
        logger.log_metrics({{"val/loss", 0.5}, {"loss (mean)", 1}}, 2);
        const nlohmann::json metric = agent.next("metric");
        require_equal(metric["step"].get<int>(), 2, "step");
        require(metric["values"] == nlohmann::json{{"val/loss", 0.5}},
                "the values that have a metric's name");
      },
      1);
}

TEST(Report, RefusesAWrongNameAndAWrongStep) {
  EXPECT_THAT([] { spawn([](Job&) { report("val loss", 1, 1); }, 1); },
              ThrowsMessage<std::runtime_error>(HasSubstr("'val loss' is not a metric's name")));
  EXPECT_THAT([] { spawn([](Job&) { report("val_loss", 1, -1); }, 1); },
              ThrowsMessage<std::runtime_error>(HasSubstr("-1 is not a step")));
}

// Checks what rank 0 prints. A spawned rank shares this process's stdout.
TEST(Progress, CountsStepsOverEpochsAndPrintsOnOneRank) {
  testing::internal::CaptureStdout();
  spawn(
      [](Job& job) {
        const NoiseDataset dataset(32);
        DataLoader loader(dataset, {.batch_size = 4}, job);
        auto bar = progress(loader, 2);
        std::int64_t steps = 0;
        for (auto& batch : bar) {
          require_equal(batch.data.size(0), std::int64_t{4}, "batch");
          bar.loss(torch::tensor(0.5));
          if (++steps == 5) break;
        }
        for (auto& batch : bar) {  // continues after the batch at which the loop was left
          bar.loss(0.25);
          steps += batch.data.size(0) / 4;
        }
        require_equal(steps, std::int64_t{8}, "steps");
        auto once = progress(loader);
        for ([[maybe_unused]] auto& batch : once) ++steps;
        require_equal(steps, std::int64_t{12}, "steps after one more epoch");
      },
      2);
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_THAT(printed, HasSubstr("step 8/8  loss 0.2500  "));
  EXPECT_THAT(printed, HasSubstr("step 4/4  "));
  // Before LibTorch 2.11, Gloo prints lines too.
  std::istringstream lines(printed);
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line.starts_with("[Gloo]") ? 0 : 1;
  EXPECT_EQ(count, 3) << printed;
}

TEST(GpuUsage, IsEmptyWithoutADriver) {
  if (!std::filesystem::exists("/dev/nvidiactl")) EXPECT_TRUE(gpu_usage().empty());
}

}  // namespace
}  // namespace muster
