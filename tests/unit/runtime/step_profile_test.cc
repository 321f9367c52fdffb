// Small trainings of two ranks, each slow for one reason.
#include <gtest/gtest.h>
#include <muster/muster.h>
#include <torch/torch.h>

#include "common/base/clock.h"
#include "tests/require.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

void work(Duration time) {
  const TimePoint end = Clock::now() + time;
  while (Clock::now() < end) continue;
}

class Numbers : public Dataset<> {
 public:
  explicit Numbers(std::chrono::milliseconds per_sample) : per_sample_(per_sample) {}
  std::int64_t size() const override { return 64; }
  Example get(std::int64_t index) const override {
    work(per_sample_);
    return {.data = torch::full({4}, static_cast<float>(index)), .target = torch::zeros({1})};
  }

 private:
  std::chrono::milliseconds per_sample_;
};

struct Slow {
  std::chrono::milliseconds sample{};
  std::chrono::milliseconds rank_1{};
  std::chrono::milliseconds evaluation{};
  int num_workers = 0;
};

TEST(Step, MustNotBeNegative) {
  spawn(
      [](Job& /*job*/) {
        for (void (*const report)(std::int64_t) : {muster::step, muster::committed}) {
          try {
            report(-3);
            require(false, "a negative step is accepted");
          } catch (const std::invalid_argument& error) {
            require(std::string(error.what()).ends_with(": -3 is not a step: expected 0 or more"),
                    error.what());
          }
        }
      },
      1);
}

// Trains. The profile's parts must add up to at most the time of the training: none may count twice.
StepProfile train(const Job& job, const Slow& slow) {
  const TimePoint began = Clock::now();
  torch::nn::Linear net(4, 1);
  DistributedDataParallel model(net, job);
  const Numbers numbers(slow.sample);
  DataLoader loader(numbers, {.batch_size = 4, .num_workers = slow.num_workers}, job);
  std::int64_t done = 0;
  muster::step(done);
  for (auto& batch : loader.epochs(1)) {
    if (job.rank() == 1) work(slow.rank_1);
    torch::mse_loss(model(batch.data), batch.target).backward();
    if (slow.evaluation > 0ms) {
      const auto in = section("eval");
      work(slow.evaluation);
    }
    muster::step(++done);
  }
  StepProfile profile = step_profile(job);
  const double took_ms = std::chrono::duration<double, std::milli>(Clock::now() - began).count();
  for (double left_ms = took_ms; const StepPart& each : profile.parts)
    require((left_ms -= each.mean_ms * static_cast<double>(profile.steps)) >= -1, profile.table());
  return profile;
}

const StepPart& part(const StepProfile& profile, const std::string& name) {
  for (const StepPart& each : profile.parts)
    if (each.name == name) return each;
  throw std::runtime_error("the profile has no part " + name);
}

// A process adds up its steps, so each test spawns processes of its own.
TEST(StepProfile, CountsAllStepsOfAFastTraining) {
  spawn(
      [](Job& job) {
        require(step_profile(job).table().empty(), "no step, no table");
        const StepProfile profile = train(job, {});
        require_equal(profile.steps, 8, "each rank's batches");
        require_equal(profile.ranks, 2, "both ranks are in it");
        double sum = 0;
        for (const StepPart& each : profile.parts) sum += each.share;
        require(std::abs(sum - 1) < 1e-9, "the parts add up to the whole");
        require(profile.table().find("over 8 steps, mean of 2 ranks") != std::string::npos, profile.table());
      },
      2);
}

TEST(StepProfile, ShowsASlowDatasetAsWaitForData) {
  for (const int num_workers : {0, 1}) {
    spawn(
        [num_workers](Job& job) {
          const StepProfile profile = train(job, {.sample = 10ms, .num_workers = num_workers});
          // A worker may have started the first batch before the first step.
          require(part(profile, "data").mean_ms > 30, "4 samples a batch, one at a time\n" + profile.table());
        },
        1);  // with two ranks, the quicker one would wait for the other
  }
}

TEST(StepProfile, ShowsASlowRankAsComputingWhileTheOtherWaits) {
  spawn(
      [](Job& job) {
        const StepProfile profile = train(job, {.rank_1 = 100ms});
        require_equal(part(profile, "compute").longest_rank, 1, profile.table());
        require_equal(part(profile, "communicate").longest_rank, 0, profile.table());
        require(part(profile, "compute").longest_ms >= 100, profile.table());
        require(part(profile, "communicate").longest_ms > 30, profile.table());
      },
      2);
}

TEST(StepProfile, GivesASectionAnEntryOfItsOwn) {
  spawn(
      [](Job& job) {
        const StepProfile profile = train(job, {.evaluation = 40ms});
        require(part(profile, "eval").mean_ms >= 40, profile.table());
      },
      1);
}

}  // namespace
}  // namespace muster
