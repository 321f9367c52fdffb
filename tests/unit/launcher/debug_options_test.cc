#include "launcher/core/settings/debug_options.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/core/settings/plan.h"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

using Given = std::vector<std::pair<std::string, std::string>>;

const Surroundings kHere{
    .environment = {{"HOME", "/home/ada"}}, .working_directory = "/work", .hostname = "desk"};

// For four ranks on two nodes.
Expected<Plan> plan_with(const Given& values) {
  Settings settings;
  EXPECT_TRUE(add_setting(settings, *find_flag("nodes"), "--nodes", "2"));
  EXPECT_TRUE(add_setting(settings, *find_flag("gpus-per-node"), "--gpus-per-node", "2"));
  for (const auto& [name, value] : values)
    EXPECT_TRUE(add_setting(settings, *find_flag(name), "--" + name, value));
  auto options = make_options(settings, {"train"}, kHere);
  if (!options) return std::unexpected(options.error());
  return make_plan(*options, {}, kHere, "job");
}
std::string refusal_of(const Given& values) {
  const auto plan = plan_with(values);
  return plan ? "(no error)" : plan.error().message();
}
std::string wrappers(const Given& values) {
  const auto plan = plan_with(values);
  if (!plan) return plan.error().message();
  std::string text;
  for (const wire::Wrapper& each : plan->job.wrappers)
    text += fmt::format("{}-{}: {};", each.first, each.last, fmt::join(each.words, "|"));
  return text;
}

TEST(DebugOptions, StdinNamesOneRankOfTheWorld) {
  EXPECT_EQ(plan_with({})->job.input_rank, std::nullopt);
  EXPECT_EQ(plan_with({{"stdin", "3"}})->job.input_rank, Rank(3));
  EXPECT_EQ(refusal_of({{"stdin", "4"}}), "--stdin: 4 is not a rank of this job: give 0 to 3");
  for (const char* text : {"-1", "all", "0,1", "99999999999"})
    EXPECT_EQ(refusal_of({{"stdin", text}}),
              fmt::format("--stdin: {} is not a rank: give a number from 0, or none", text));
}

TEST(DebugOptions, WrappersAreSplitIntoWordsForRanksRangesOrAll) {
  EXPECT_EQ(wrappers({{"wrap", "0:gdb --args"}}), "0-0: gdb|--args;");
  EXPECT_EQ(wrappers({{"wrap", "0,2-3:sh -c 'exec \"$@\"' sh"}}),
            "0-0: sh|-c|exec \"$@\"|sh;2-3: sh|-c|exec \"$@\"|sh;");
  EXPECT_EQ(wrappers({{"wrap", "all:nice -n 5"}, {"wrap", "1:env A=b:c"}}),
            "0-2147483647: nice|-n|5;1-1: env|A=b:c;");
}

TEST(DebugOptions, RefusesMalformedWrappers) {
  EXPECT_EQ(refusal_of({{"wrap", "2-4:gdb"}}), "--wrap: 4 is not a rank of this job: give 0 to 3");
  EXPECT_EQ(refusal_of({{"wrap", "x:gdb"}}), "--wrap: x is not a list of numbers: give them as 0,4-7");
  for (const char* text : {"gdb --args", ":gdb", ""})
    EXPECT_THAT(refusal_of({{"wrap", text}}), HasSubstr("does not name ranks: give RANKS:COMMAND")) << text;
  for (const char* text : {"0:", "0: ", "0:''"})
    EXPECT_THAT(refusal_of({{"wrap", text}}), HasSubstr("has no command after the colon")) << text;
  for (const char* text : {"0:'gdb", "0:nice \"gdb", "0:gdb \\"})
    EXPECT_THAT(refusal_of({{"wrap", text}}), HasSubstr("has an unclosed quote, or a backslash at the end"))
        << text;
}

TEST(DebugOptions, ARankThatWaitsForAPersonIsNotWatchedForHangs) {
  const Duration usual = wire::JobLimits{}.hang_limit;
  EXPECT_EQ(plan_with({{"wrap", "0:gdb"}})->job.limits.hang_limit, usual);
  EXPECT_EQ(plan_with({{"wrap", "0:gdb"}, {"stdin", "1"}})->job.limits.hang_limit, usual);
  const auto plan = plan_with({{"wrap", "all:gdb"}, {"stdin", "1"}, {"heartbeat-limit", "7"}});
  EXPECT_EQ(plan->job.limits.hang_limit, 0s);
  EXPECT_EQ(plan->job.limits.heartbeat_limit, 7s);
}

TEST(DebugOptions, Rank0GetsInputThatSomebodyHasGivenUnlessTheFlagSaysOtherwise) {
  const auto default_rank = [](bool has_input, wire::Mpi mpi, Options options = {}) {
    Plan plan;
    plan.job.mpi = mpi;
    settle_input(plan, options, has_input);
    return plan.job.input_rank;
  };
  EXPECT_EQ(default_rank(false, wire::Mpi::kNone), std::nullopt);
  EXPECT_EQ(default_rank(true, wire::Mpi::kNone), Rank(0));
  EXPECT_EQ(default_rank(false, wire::Mpi::kPmix), Rank(0));
  Options given;
  given.input = InputOption{"--stdin", kNoRank};
  EXPECT_EQ(default_rank(true, wire::Mpi::kPmix, given), std::nullopt);
  EXPECT_EQ(plan_with({{"wrap", "all:gdb"}, {"stdin", "none"}})->job.input_rank, std::nullopt);
}

TEST(DebugOptions, ADryRunShowsThem) {
  const auto plan = plan_with({{"wrap", "1-2:gdb --args"}, {"stdin", "1"}});
  EXPECT_THAT(plan_as_text(*plan), AllOf(HasSubstr("wrapper      gdb --args before rank 1-2\n"),
                                         HasSubstr("stdin        goes to rank 1\n")));
  EXPECT_THAT(plan_as_json(*plan), AllOf(HasSubstr("\"stdin_rank\": 1"), HasSubstr("\"first_rank\": 1")));
}

}  // namespace
}  // namespace muster::launcher
