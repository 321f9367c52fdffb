#include "launcher/core/verdict/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace muster::launcher {
namespace {

using testing::HasSubstr;
using enum Finding::Result;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr Demand kDemand{.nodes = 2, .workers = 16, .workers_per_node = 8};
constexpr double kNow = 1'790'000'000;

TEST(Findings, JudgeDescriptorsByEightForEachWorkerOfAnAgent) {
  EXPECT_EQ(judge_descriptors(128, kDemand).result, kOk);
  const Finding few = judge_descriptors(127, kDemand);
  EXPECT_EQ(few.result, kFail);
  EXPECT_EQ(few.advice, "ulimit -n 128");
}

TEST(Findings, JudgeProcessesByWorkersAndTheirThreads) {
  EXPECT_EQ(judge_processes({}, kDemand).result, kOk);
  const auto judge = [](std::uint64_t limit, std::uint64_t used) {
    return judge_processes({{"kernel.pid_max", limit, used}}, kDemand).result;
  };
  EXPECT_EQ(judge(1000, 400), kOk);
  EXPECT_EQ(judge(1000, 600), kWarn) << "workers fit, their threads do not";
  EXPECT_EQ(judge(1000, 976), kWarn) << "16 ranks, 3 threads of each of 2 agents, 2 of the launcher";
  EXPECT_EQ(judge(1000, 977), kFail);
  EXPECT_EQ(judge(1000, 2000), kFail) << "more than the limit may be in use";
  const Finding tightest =
      judge_processes({{"a", 5000, 0}, {"/x/pids.max", 1000, 2000}, {"c", 1000, 990}}, kDemand);
  EXPECT_EQ(
      tightest.text,
      "0 more processes and threads are allowed, of 1000; about 536 will run (tightest limit: /x/pids.max)");
  EXPECT_EQ(tightest.advice, "raise /x/pids.max (of a container: docker run --pids-limit)");
}

TEST(Findings, JudgeSharedMemoryBySizeAndWhatIsFree) {
  EXPECT_EQ(judge_shared_memory(Space{8 * kGiB, 8 * kGiB}, kDemand).result, kOk);
  EXPECT_THAT(judge_shared_memory(Space{64 * kMiB, 64 * kMiB}, kDemand).advice, HasSubstr("--shm-size"));
  const Finding full = judge_shared_memory(Space{8 * kGiB, 10 * kMiB}, kDemand);
  EXPECT_EQ(full.result, kWarn);
  EXPECT_THAT(full.advice, HasSubstr("find the files that fill it"));
  const Finding small = judge_shared_memory(Space{128 * kMiB, 128 * kMiB}, kDemand);
  EXPECT_EQ(small.result, kWarn);
  EXPECT_EQ(small.advice, "16 ranks need 256 MiB: mount -o remount,size=256M /dev/shm") << "nothing fills it";
  EXPECT_EQ(judge_shared_memory(std::nullopt, kDemand).result, kWarn);
}

TEST(Findings, JudgeDisksByTheNeededSpace) {
  EXPECT_EQ(judge_disk("log directory", "/logs", {kGiB, kGiB}, kGiB).result, kOk);
  EXPECT_EQ(judge_disk("log directory", "/logs", {kGiB, 100 * kMiB}, kGiB).result, kWarn);
  const Finding full = judge_disk("log directory", "/logs", {kGiB, kMiB}, kGiB);
  EXPECT_EQ(full.result, kFail);
  EXPECT_EQ(full.text, "1 MiB free in /logs");
}

TEST(Findings, JudgeTheClockByItselfAndByTheFileSystems) {
  EXPECT_EQ(judge_clock(kNow, std::nullopt).result, kOk);
  EXPECT_EQ(judge_clock(kNow, kNow - 2).result, kOk);
  EXPECT_EQ(judge_clock(0, std::nullopt).result, kWarn);
  const Finding apart = judge_clock(kNow, kNow + 60);
  EXPECT_EQ(apart.result, kWarn);
  EXPECT_THAT(apart.text, HasSubstr("differs by 60 s"));
}

TEST(Findings, AreATableWithAdvice) {
  const std::vector<Finding> findings = {{kOk, "ports", "fine"},
                                         {kFail, "open files", "too few", "ulimit -n 120"}};
  EXPECT_EQ(findings_as_table(findings),
            "OK    ports       fine\n"
            "FAIL  open files  too few\n"
            "                  -> ulimit -n 120\n");
  EXPECT_EQ(findings_as_table({{kWarn, "clock", "differs by 60 s from the clock of the file system"}}, 40),
            "WARN  clock  differs by 60 s from the\n             clock of the file system\n");
  EXPECT_FALSE(all_fit(findings));
  const auto json = nlohmann::json::parse(findings_as_json(findings));
  EXPECT_EQ(json["fit"], false);
  EXPECT_EQ(json["checks"][1]["result"], "fail");
  EXPECT_TRUE(all_fit({{kWarn, "GPUs", "none"}}));
}

}  // namespace
}  // namespace muster::launcher
