// Pipeline schedules, without running them: they equal torch's, do not deadlock, cost what their papers say,
// and mistakes in them are found.
#include "common/pipeline/schedule.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sstream>

#include "common/base/text.h"
#include "common/pipeline/checked_schedule.h"
#include "common/pipeline/lost_time.h"
#include "common/pipeline/make_schedule.h"
#include "common/pipeline/schedule_picture.h"
#include "common/pipeline/simulated_schedule.h"

namespace muster {
namespace {

using testing::HasSubstr;

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t value = 14695981039346656037U;
  for (const char byte : text) value = (value ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  return value;
}

Schedule made(std::string_view name, int ranks, int microbatches, std::optional<int> chunks = {}) {
  auto schedule = make_schedule(name, {.ranks = ranks, .microbatches = microbatches, .chunks = chunks});
  EXPECT_TRUE(schedule) << (schedule ? "" : schedule.error().message());
  return schedule.value_or(Schedule());
}

std::string mistake_in(const Schedule& schedule, const ScheduleLimits& limits = {}) {
  const Status good = check_schedule(schedule, limits);
  return good ? "" : good.error().message();
}

SimulatedSchedule simulated(const Schedule& schedule, const StageTimes& times = {}) {
  return simulate_schedule(schedule,
                           std::vector<StageTimes>(static_cast<std::size_t>(schedule.stages), times));
}

TEST(Schedules, EqualThoseOfTorch) {
  std::ifstream file(TORCH_ORDERS);
  int count = 0;
  std::string name;
  int ranks = 0;
  int microbatches = 0;
  int chunks = 0;
  std::uint64_t checksum = 0;
  for (; file >> name >> ranks >> microbatches >> chunks >> checksum; ++count) {
    const std::string csv = schedule_as_csv(made(name, ranks, microbatches, chunks));
    ASSERT_EQ(fnv1a(csv), checksum) << name << " " << ranks << " " << microbatches << " " << chunks << "\n"
                                    << csv;
  }
  EXPECT_EQ(count, 519);
}

// A schedule refuses exactly the shapes that it does not support.
TEST(Schedules, DoNotDeadlockForAnyNumberOfRanksMicrobatchesAndChunks) {
  int accepted = 0;
  std::map<std::string_view, int> refused;
  for (const std::string_view name : schedule_names()) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int microbatches = 1; microbatches <= 32; ++microbatches) {
        for (int chunks = 1; chunks <= 4; ++chunks) {
          const auto schedule =
              make_schedule(name, {.ranks = ranks, .microbatches = microbatches, .chunks = chunks});
          if (!schedule) {
            ++refused[name];
            continue;
          }
          ++accepted;
          ASSERT_EQ(mistake_in(*schedule), "") << name << ranks << " " << microbatches << " " << chunks;
          const auto whole = with_communication(*schedule);
          ASSERT_TRUE(whole) << whole.error().message();
          ASSERT_EQ(mistake_in(*whole), "") << name << ranks << " " << microbatches << " " << chunks;
        }
      }
    }
  }
  // Out of 1,024 each: three wrong numbers of chunks, and microbatches that do not divide into rounds.
  int no_whole_rounds = 0;
  int too_few = 0;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int microbatches = 1; microbatches <= 32; ++microbatches) {
      if (microbatches % std::max(1, microbatches / ranks) != 0) ++no_whole_rounds;
      if (microbatches < 2 * ranks) ++too_few;
    }
  }
  EXPECT_EQ(refused["GPipe"], 768);
  EXPECT_EQ(refused["1F1B"], 768);
  EXPECT_EQ(refused["LoopedBFS"], 0);
  EXPECT_EQ(refused["Interleaved1F1B"], 4 * no_whole_rounds);
  EXPECT_EQ(refused["InterleavedZeroBubble"], 4 * no_whole_rounds);
  EXPECT_EQ(refused["ZBH1"], 768 + no_whole_rounds);
  EXPECT_EQ(refused["ZBVZeroBubble"], 768);
  EXPECT_EQ(refused["DualPipeV"], 768 + too_few);
  int all = accepted;
  for (const auto& [name, count] : refused) all += count;
  EXPECT_EQ(all, 8 * 1024);
}

TEST(Schedules, HaveTheBubblesOfTheirPapers) {
  const StageTimes times{.forward = 2, .input = 3, .weight = 1.5};
  const double whole = times.forward + times.input + times.weight;
  for (int p = 1; p <= 8; ++p) {
    for (int m = p; m <= 32; m += p) {
      const double ideal = m * whole;
      for (const std::string_view name : {"GPipe", "1F1B"}) {
        const SimulatedSchedule run = simulated(made(name, p, m), times);
        EXPECT_DOUBLE_EQ(run.makespan - ideal, (p - 1) * whole) << name << p << " " << m;
        EXPECT_NEAR(run.bubble_fraction, (p - 1.0) / (m + p - 1), 1e-12);
      }
      EXPECT_NEAR(simulated(made("ZBH1", p, m), times).makespan - ideal,
                  (p - 1) * (times.forward + times.input - times.weight), 1e-9)
          << p << " " << m;
      for (int v = 1; v <= 4; ++v) {
        const StageTimes of_chunk{
            .forward = times.forward / v, .input = times.input / v, .weight = times.weight / v};
        for (const std::string_view name : {"Interleaved1F1B", "LoopedBFS"})
          EXPECT_NEAR(simulated(made(name, p, m, v), of_chunk).makespan - ideal, (p - 1) * whole / v, 1e-9)
              << name << p << " " << m << " " << v;
      }
    }
  }
}

// The ranks begin one after the other, and never wait between their first and their last instruction.
TEST(Schedules, ZeroBubbleInAVHasNoneBetweenFirstAndLastInstruction) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 2 * p; m <= 32; ++m) {
      const SimulatedSchedule run = simulated(made("ZBV", p, m));
      for (const auto& rank : run.ranks)
        EXPECT_DOUBLE_EQ(rank.back().end - rank.front().begin, 6.0 * m) << p << " " << m;
    }
  }
}

TEST(Schedules, HoldAsManyActivationsAsTheirPapersSay) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 32; ++m) {
      const auto gpipe = simulated(made("GPipe", p, m)).peak_activations;
      const auto one = simulated(made("1F1B", p, m)).peak_activations;
      for (int rank = 0; rank < p; ++rank) {
        EXPECT_EQ(gpipe.at(static_cast<std::size_t>(rank)), m);
        EXPECT_EQ(one.at(static_cast<std::size_t>(rank)), std::min(m, p - rank));
      }
      if (m >= 2 * p) {
        EXPECT_THAT(simulated(made("ZBV", p, m)).peak_activations, testing::Each(p)) << m;
        EXPECT_THAT(simulated(made("DualPipeV", p, m)).peak_activations, testing::Each(testing::Le(p + 1)))
            << m;
      }
      if (m % p != 0) continue;
      EXPECT_THAT(simulated(made("ZBH1", p, m)).peak_activations, testing::Each(testing::Le(std::min(m, p))));
      for (int v = 2; v <= 4; ++v) {
        const auto interleaved = simulated(made("Interleaved1F1B", p, m, v)).peak_activations;
        for (int rank = 0; rank < p; ++rank)
          EXPECT_EQ(interleaved.at(static_cast<std::size_t>(rank)),
                    std::min((v - 1) * p + 2 * (p - 1 - rank) + 1, m * v));
      }
    }
  }
}

TEST(Schedules, AreFoundByTheirNamesInAnySpelling) {
  EXPECT_EQ(find_schedule_name("Schedule1F1B"), "1F1B");
  EXPECT_EQ(find_schedule_name("gpipe"), "GPipe");
  EXPECT_EQ(find_schedule_name("interleaved_1f1b"), "Interleaved1F1B");
  EXPECT_EQ(find_schedule_name("ZB-H1"), "ZBH1");
  EXPECT_EQ(find_schedule_name("ZBV"), "ZBVZeroBubble");
  EXPECT_EQ(find_schedule_name("2F2B"), std::nullopt);
  EXPECT_EQ(find_schedule_name("schedule"), std::nullopt);
}

TEST(Schedules, RefuseUnknownNamesInOneLine) {
  const auto error = [](std::string_view name, const ScheduleRequest& request) {
    const auto schedule = make_schedule(name, request);
    return schedule ? "(no error)" : schedule.error().message();
  };
  EXPECT_EQ(error("2F2B", {}),
            "unknown schedule 2F2B: use one of GPipe, 1F1B, Interleaved1F1B, LoopedBFS, ZBH1, "
            "InterleavedZeroBubble, ZBVZeroBubble, DualPipeV");
  EXPECT_EQ(error("GPipe", {.chunks = 2}), "GPipe has one stage a rank, not 2");
  EXPECT_EQ(error("ZBV", {.chunks = 3}), "ZBVZeroBubble has 2 chunks a rank, not 3");
  EXPECT_EQ(error("Interleaved1F1B", {.ranks = 4, .microbatches = 9, .chunks = 2}),
            "Interleaved1F1B cannot divide 9 microbatches over 4 ranks into 2 equal rounds: give 8 or 10");
  EXPECT_EQ(error("DualPipeV", {.ranks = 4, .microbatches = 7, .chunks = 2}),
            "DualPipeV needs at least as many microbatches as stages: 8 over 4 ranks, not 7");
}

TEST(ScheduleFile, IsReadAsItWasWritten) {
  for (const std::string_view name : schedule_names()) {
    const Schedule schedule = made(name, 3, 6);
    const Schedule whole = with_communication(schedule).value();
    for (const Schedule& each : {schedule, whole}) {
      auto read = parse_schedule(schedule_as_csv(each));
      ASSERT_TRUE(read) << read.error().message();
      read->name = each.name;
      EXPECT_EQ(*read, each) << name;
    }
  }
  // The format of Python's csv module, with idle cells.
  const auto read = parse_schedule("0F0,,0B0\r\n,\"1F0\",1I0,1W0\r\n");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(schedule_as_csv(*read), "0F0,0B0\n1F0,1I0,1W0\n");
}

TEST(ScheduleFile, NamesMistakesByLineAndCell) {
  const auto error = [](std::string_view csv) {
    const auto schedule = parse_schedule(csv);
    return schedule ? "(no error)" : schedule.error().message();
  };
  EXPECT_EQ(error(""), "it has no instructions");
  EXPECT_EQ(error(",,\n\n"), "it has no instructions");
  EXPECT_EQ(
      error("0F0,0B0\n1F0,1X0\n"),
      "line 2, cell 2: '1X0' is not an instruction: give stage, operation and microbatch, as in 0F3, 2B0 or 1SEND_F2");
  for (const char* wrong : {"F0", "0F", "0F0x", "-1F0", "99999999999F0", "0F99999999999", "(0F0;1B0)",
                            "(0F0)OVERLAP_F_B", "(0B0;1F0)OVERLAP_F_B", "0SEND_X0", "0F0\x1b[2J"})
    EXPECT_THAT(error(wrong), HasSubstr("line 1, cell 1: ")) << wrong;
  EXPECT_EQ(error("0F0\x1b[2J").find('\x1b'), std::string::npos);
}

// Each file has one mistake. Add a file for any mistake that is not found yet.
TEST(ScheduleCheck, FindsEveryMistake) {
  const std::map<std::string, std::string> causes{
      {"backward_before_forward", "rank 0, instruction 3 (0B1): comes before the forward"},
      {"backward_missing", "stage 1 lacks the backward of microbatch 3"},
      {"backward_split_and_whole", "the gradient of its input is there already"},
      {"backward_twice", "rank 1, instruction 5 (1B1): occurs twice"},
      {"deadlock_in_steady_state", "deadlock: it waits for "},
      {"deadlock_of_two_chunks", "deadlock: it waits for "},
      {"deadlock_together", "deadlock: it waits for "},
      {"forward_missing", "stage 1 lacks the forward of microbatch 2"},
      {"forward_twice", "rank 0, instruction 2 (0F0): occurs twice"},
      {"receive_after_use", "rank 1, instruction 1 (1F0): nothing was received for it"},
      {"receive_missing", "nothing was received for it"},
      {"receive_of_own_stage", "both ends are on this rank"},
      {"receives_in_another_order", "sends 0SEND_F0 at that point"},
      {"reduction_before_last_gradient", "comes before the stage's last gradient"},
      {"reduction_missing", "comes before the reduction"},
      {"send_before_forward", "comes before the forward"},
      {"send_from_last_stage", "its other end has no stage"},
      {"send_missing", "does not send it"},
      {"stage_missing", "stage 1 lacks the forward of microbatch 0"},
      {"stage_on_two_ranks", "stage 0 is on rank 0"},
      {"step_missing", "stage 1 lacks its step"},
      {"weights_before_input", "comes before the backward of the input"},
      {"weights_missing", "stage 0 lacks the backward of the weights of microbatch 3"},
  };
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(WRONG_SCHEDULES)) {
    if (entry.path().extension() != ".csv") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const auto schedule = parse_schedule(text.str());
    ASSERT_TRUE(schedule) << entry.path() << ": " << schedule.error().message();
    const std::string mistake = mistake_in(*schedule);
    EXPECT_NE(mistake, "") << entry.path();
    found[entry.path().stem()] = mistake;
  }
  for (const auto& [name, cause] : causes) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_THAT(found[name], HasSubstr(cause)) << name;
  }
}

TEST(ScheduleCheck, FindsARankThatHoldsMoreThanItMay) {
  EXPECT_EQ(mistake_in(made("1F1B", 4, 8), {.activations = 4}), "");
  EXPECT_EQ(mistake_in(made("GPipe", 4, 8), {.activations = 4}),
            "rank 0, instruction 5 (0F4): it holds the activations of 5 microbatches, 4 are allowed");
}

// A slow stage sets the pace, and a link delays what is sent over it.
TEST(SimulatedSchedule, HandlesStagesWithDifferentTimesAndLinks) {
  const Schedule schedule = made("1F1B", 2, 4);
  const std::vector<StageTimes> times{{.forward = 1, .input = 1, .weight = 1},
                                      {.forward = 2, .input = 2, .weight = 2}};
  // The second rank is busy from time 1 on, for 4 x 6; then rank 0 has its last backward.
  EXPECT_DOUBLE_EQ(simulate_schedule(schedule, times).makespan, 1 + 4 * 6 + 2);
  EXPECT_DOUBLE_EQ(simulate_schedule(schedule, times, 0.25).makespan, 1.25 + 4 * 6 + 2.25);
}

TEST(LostTime, IsDividedIntoBubbleImbalanceAndLink) {
  const Schedule schedule = make_schedule("1F1B", {.ranks = 4, .microbatches = 8, .chunks = {}}).value();
  const std::vector<StageTimes> equal(4, {.forward = 1, .input = 1, .weight = 1});
  const auto ideal = lost_time(schedule, equal, simulate_schedule(schedule, equal).ranks);
  EXPECT_DOUBLE_EQ(ideal.compute, 24);
  EXPECT_DOUBLE_EQ(ideal.bubble, 9);
  EXPECT_DOUBLE_EQ(ideal.imbalance, 0);
  EXPECT_DOUBLE_EQ(ideal.link, 0);

  const auto slow_link = lost_time(schedule, equal, simulate_schedule(schedule, equal, 0.5).ranks);
  EXPECT_DOUBLE_EQ(slow_link.bubble, 9);
  EXPECT_DOUBLE_EQ(slow_link.imbalance, 0);
  EXPECT_GT(slow_link.link, 2);

  std::vector<StageTimes> unequal = equal;
  unequal[2] = {.forward = 2, .input = 2, .weight = 2};
  const auto unbalanced = lost_time(schedule, unequal, simulate_schedule(schedule, unequal).ranks);
  EXPECT_DOUBLE_EQ(unbalanced.compute, 30);
  EXPECT_GT(unbalanced.imbalance, 10);
  EXPECT_NEAR(unbalanced.link, 0, 1e-9);
  for (const LostTime& each : {ideal, slow_link, unbalanced})
    EXPECT_NEAR(each.compute + each.bubble + each.imbalance + each.link, each.step, 1e-9);
}

TEST(SchedulePicture, HasARowARankAndFitsIntoItsColumns) {
  const Schedule schedule = make_schedule("GPipe", {.ranks = 2, .microbatches = 2, .chunks = {}}).value();
  const auto simulated = simulate_schedule(schedule, std::vector<StageTimes>(2, {1, 0.5, 0.5}));
  EXPECT_EQ(schedule_picture(simulated.ranks, /*one_stage_a_rank=*/true),
            "rank 0  F0 F1       B0 B1\nrank 1     F0 F1 B0 B1\n");
  for (const std::string_view line :
       split(schedule_picture(simulated.ranks, /*one_stage_a_rank=*/true, {.columns = 12}), '\n'))
    EXPECT_LE(line.size(), std::string_view("rank 0  ").size() + 12);
}

}  // namespace
}  // namespace muster
