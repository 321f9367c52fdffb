// `launch schedule`: its output for a pipeline schedule, and its error messages.
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/process/launch_run.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

using testing::HasSubstr;

struct Drawn {
  int exit_code;
  std::string out;
  std::string err;
};

Drawn schedule(std::vector<std::string> words) {
  words.insert(words.begin(), "schedule");
  LaunchRun run(words);
  const int exit_code = run.exit_code();
  return {exit_code, run.out(), run.err()};
}

TEST(LaunchSchedule, DrawsEachRanksTimeAndSaysWhatItCosts) {
  const Drawn shown = schedule({"show", "1F1B", "--stages", "2", "--microbatches", "3"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(shown.out,
            "rank 0  F0 F1       B0--- F2 B1---    B2---\n"
            "rank 1     F0 B0--- F1 B1--- F2 B2---\n"
            "1F1B: 2 ranks, 2 stages, 3 microbatches\n"
            "makespan          12\n"
            "bubble            25.0 % of all ranks' time\n"
            "peak activations  2 1 (by rank, of microbatches)\n");
  EXPECT_THAT(schedule({"show", "LoopedBFS", "--stages", "2", "--microbatches", "2"}).out,
              HasSubstr("peak activations  4 4 (by rank, of one microbatch in one chunk each)\n"));
}

TEST(LaunchSchedule, TellsProgramsTheSame) {
  const Drawn shown = schedule(
      {"show", "interleaved-1f1b", "--stages", "4", "--microbatches", "8", "--chunks", "2", "--json"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  const auto json = nlohmann::json::parse(shown.out);
  EXPECT_EQ(json["schedule"], "Interleaved1F1B");
  EXPECT_EQ(json["stages"], 4);
  EXPECT_EQ(json["chunks"], 2);
  EXPECT_EQ(json["makespan"], 8 * 3 + 3 * 3 / 2.0);
  EXPECT_DOUBLE_EQ(json["bubble_fraction"], 4.5 / 28.5);
  EXPECT_EQ(json["peak_activations"], (nlohmann::json{11, 9, 7, 5}));
  EXPECT_EQ(json["instructions"].size(), 4U);
  EXPECT_EQ(json["instructions"][3][0], "3F0");
}

TEST(LaunchSchedule, ReadsWhatItHasWrittenAndFindsWhatWasSpoilt) {
  ScratchDirectory scratch;
  const std::string file = scratch / "mine.csv";
  const Drawn csv = schedule({"show", "ZBV", "--stages", "2", "--microbatches", "4", "--csv"});
  ASSERT_EQ(csv.exit_code, 0) << csv.err;
  std::ofstream(file) << csv.out;
  EXPECT_EQ(schedule({"show", file, "--csv"}).out, csv.out);
  const Drawn whole = schedule({"check", file, "--stages", "2", "--microbatches", "4"});
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(whole.out, file + ": valid: 2 ranks, 4 stages, 4 microbatches\n");
  const Drawn more = schedule({"check", file, "--microbatches", "5"});
  EXPECT_EQ(more.exit_code, 1);
  EXPECT_THAT(more.err, HasSubstr("mine.csv: stage 0 lacks the forward of microbatch 4"));
  const Drawn others = schedule({"check", file, "--stages", "3"});
  EXPECT_EQ(others.exit_code, 1);
  EXPECT_THAT(others.err, HasSubstr("mine.csv: it has 2 ranks, not 3"));
  std::ofstream(file) << "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n";
  const Drawn spoilt = schedule({"check", file});
  EXPECT_EQ(spoilt.exit_code, 1);
  EXPECT_EQ(spoilt.out, "");
  EXPECT_EQ(spoilt.err, "launch: " + file +
                            ": rank 0, instruction 2 (0B0): deadlock: it waits for 1B0, which never comes\n");
}

TEST(LaunchSchedule, AnswersWrongUseInOneLine) {
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{}, "schedule: say what to do"},
      {{"draw", "1F1B"}, "schedule: draw is neither show nor check"},
      {{"show", "1F1B"}, "--stages is missing"},
      {{"show", "1F1B", "--stages", "2"}, "--microbatches is missing"},
      {{"show", "1F1B", "--stages", "0", "--microbatches", "2"}, "--stages 0: give a number from 1 to 4096"},
      {{"show", "1F1B", "--stages", "4000", "--microbatches", "4000"},
       "stages times microbatches may be at most 100000"},
      {{"show", "1F1B", "--stages", "2", "--microbatches", "2", "--times", "1,x,1"},
       "--times 1,x,1: give three numbers"},
      {{"show", "1F1B", "--stages", "2", "--microbatches", "2", "--chunks", "2"},
       "1F1B has one stage a rank"},
      {{"show", "2F2B", "--stages", "2", "--microbatches", "2"}, "unknown schedule 2F2B"},
      {{"show", "2F2B"}, "unknown schedule 2F2B"},
      {{"check", "none.csv"}, "none.csv: No such file"},
      {{"show", "1F1B", "--csv", "--json"}, "give one of them"},
      {{"show", "1F1B", "2"}, "2: too many arguments: `launch schedule` takes at most two"},
  };
  for (const auto& [words, line] : wrong) {
    const Drawn answer = schedule(words);
    EXPECT_EQ(answer.exit_code, 2) << line;
    EXPECT_EQ(answer.out, "");
    EXPECT_THAT(answer.err, HasSubstr(line));
    EXPECT_EQ(std::ranges::count(answer.err, '\n'), 1) << answer.err;
  }
}

}  // namespace
}  // namespace muster
