#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "launcher/core/settings/arguments.h"

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string flag_error_of(const std::vector<std::string>& words) {
  const auto sorted = sort_arguments(words);
  return sorted ? "(no error)" : sorted.error().message();
}

std::vector<std::string> read(const std::vector<std::string>& words) {
  std::vector<std::string> found;
  const auto sorted = sort_arguments(words);
  if (!sorted) return {sorted.error().message()};
  for (const auto& given : sorted->flags) {
    found.push_back(std::string(option_name(*given.flag)) + (given.value ? "=" + *given.value : ""));
  }
  return found;
}

TEST(Flags, HaveEachNameAndLetterOnce) {
  std::set<std::string_view> names;
  std::set<char> letters;
  for (const auto flags : {own_flags(), torchrun_flags()}) {
    for (const Flag& flag : flags) {
      EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
      EXPECT_FALSE(flag.text.empty()) << flag.name;
      if (flag.letter != 0) EXPECT_TRUE(letters.insert(flag.letter).second) << flag.letter;
      if (flag.treatment == Treatment::kAlias) EXPECT_NE(find_flag(flag.text), nullptr) << flag.name;
    }
  }
}

TEST(Flags, KnowEveryFlagOfTorchrun) {
  for (const char* name : {"nnodes",
                           "nproc-per-node",
                           "rdzv-backend",
                           "rdzv-endpoint",
                           "rdzv-id",
                           "rdzv-conf",
                           "standalone",
                           "max-restarts",
                           "monitor-interval",
                           "start-method",
                           "event-log-handler",
                           "role",
                           "module",
                           "no-python",
                           "run-path",
                           "log-dir",
                           "redirects",
                           "tee",
                           "local-ranks-filter",
                           "duplicate-stdout-filters",
                           "duplicate-stderr-filters",
                           "log-line-prefix-template",
                           "logs-specs",
                           "node-rank",
                           "master-addr",
                           "master-port",
                           "local-addr",
                           "numa-binding",
                           "signals-to-handle",
                           "shutdown-timeout",
                           "virtual-local-rank",
                           "print-completion"}) {
    EXPECT_NE(find_flag(name), nullptr) << name;
  }
}

TEST(Arguments, EndAtTheFirstWordThatIsNotAFlag) {
  const auto sorted = sort_arguments({"--nodes", "2", "train", "--nodes", "7", "--unknown"});
  ASSERT_TRUE(sorted);
  EXPECT_EQ(sorted->flags.size(), 1U);
  EXPECT_THAT(sorted->program, ElementsAre("train", "--nodes", "7", "--unknown"));
}

TEST(Arguments, WarnAboutAFlagAfterTheProgram) {
  const auto told = [](const std::vector<std::string>& words) { return sort_arguments(words)->notices; };
  EXPECT_THAT(told({"./train", "--lr", "1", "--gpus-per-node", "2", "--nodes=3"}),
              ElementsAre("--gpus-per-node and --nodes come after the program and are passed to it. "
                          "To give them to launch: `launch --gpus-per-node 2 --nodes=3 ./train ...` "
                          "(to silence this: `launch -- ./train ...`)"));
  EXPECT_THAT(
      told({"train", "--nproc_per_node=3"}),
      ElementsAre("--nproc_per_node comes after the program and is passed to it. To give it to launch: "
                  "`launch --nproc_per_node=3 train ...` (to silence this: `launch -- train ...`)"));
  EXPECT_THAT(told({"--", "train", "--nodes", "2"}), ElementsAre());
  EXPECT_THAT(told({"torchrun", "--standalone", "--nproc-per-node=2", "t.py", "--lr", "1 2"}),
              ElementsAre("--standalone and --nproc-per-node come after the program and are passed to it. "
                          "launch takes the place of torchrun: "
                          "`launch --standalone --nproc-per-node=2 t.py --lr '1 2'` "
                          "(to silence this: `launch -- torchrun ...`)"));
  EXPECT_THAT(told({"srun", "-n", "4", "--nodes", "2", "./train"}),
              ElementsAre("--nodes comes after the program and is passed to it. "
                          "launch takes the place of srun: `launch --nodes 2 PROGRAM` "
                          "(to silence this: `launch -- srun ...`)"));
  EXPECT_THAT(told({"--nodes", "2", "train", "--nnodes", "2"}), ElementsAre());
  EXPECT_THAT(told({"train", "--config", "x", "--help", "--node", "-n", "nodes", "--", "--nodes"}),
              ElementsAre());
}

TEST(Arguments, EndAtTwoDashes) {
  const auto sorted = sort_arguments({"--quiet", "--", "--odd-program", "x"});
  ASSERT_TRUE(sorted);
  EXPECT_THAT(sorted->program, ElementsAre("--odd-program", "x"));
}

TEST(Arguments, MayBeSpelledWithUnderscoresEqualsSignsAndLetters) {
  EXPECT_THAT(read({"--nproc_per_node=4", "--max_restarts", "0", "-r3", "-t", "0:1,1:2", "-m", "x"}),
              ElementsAre("gpus-per-node=4", "max-restarts=0", "redirects=3", "tee=0:1,1:2", "module"));
}

TEST(Arguments, KeepUnderscoresInValues) {
  EXPECT_THAT(read({"--env=MY_NAME=a_b", "x"}), ElementsAre("env=MY_NAME=a_b"));
}

TEST(Arguments, MayBeAbbreviatedUnambiguously) {
  EXPECT_THAT(read({"--gpus-per", "2", "--max", "1", "--stand", "x"}),
              ElementsAre("gpus-per-node=2", "max-restarts=1", "standalone"));
  EXPECT_THAT(
      flag_error_of({"--no", "x"}),
      HasSubstr("ambiguous: could be --nodes, --no-progress-limit, --node-exclusion, --no-warm, --no-fold, "
                "--no-prefix, --no-python, --node-rank"));
}

TEST(Arguments, AnswerAnUnknownFlagWithTheNearest) {
  EXPECT_EQ(flag_error_of({"--ndoes", "2", "x"}), "--ndoes: not a flag of launch: did you mean --nodes?");
  EXPECT_THAT(flag_error_of({"--colour", "x"}), HasSubstr("`launch help all` lists them"));
  EXPECT_THAT(flag_error_of({"-x"}), HasSubstr("-x: not a flag of launch"));
}

TEST(Arguments, AnswerAFlagOfAnotherToolWithTheOneOfTheSamePurpose) {
  for (const auto& [given, meant] : {std::pair("-n", "--gpus-per-node"),
                                     std::pair("-np", "--gpus-per-node"),
                                     std::pair("-n4", "--gpus-per-node"),
                                     std::pair("-N", "--nodes"),
                                     std::pair("--ntasks", "--gpus-per-node"),
                                     std::pair("--ntasks-per-node=2", "--gpus-per-node"),
                                     std::pair("--num_nodes", "--nodes"),
                                     std::pair("--num-gpus", "--gpus-per-node"),
                                     std::pair("--devices", "--gpus-per-node"),
                                     std::pair("--min-nodes", "MIN:MAX"),
                                     std::pair("--step-timeout", "--hang-limit"),
                                     std::pair("--hang_timeout", "--hang-limit"),
                                     std::pair("--timeout", "--time-limit"),
                                     std::pair("--retries", "--max-restarts"),
                                     std::pair("--restarts", "--max-restarts"),
                                     std::pair("--port", "--master-port"),
                                     std::pair("--rank", "--hosts"),
                                     std::pair("-H", "--hosts"),
                                     std::pair("-x", "--env"),
                                     std::pair("--ckpt-dir", "--checkpoint-dir"),
                                     std::pair("-J", "--rdzv-id"),
                                     std::pair("--bind-to", "--wrap all:'numactl ...'"),
                                     std::pair("--map-by", "--gpus-per-node"),
                                     std::pair("--gres", "--gpus-per-node"),
                                     std::pair("--num-samples", "`launch sweep run --trials N`")}) {
    EXPECT_THAT(flag_error_of({given, "4", "x"}),
                testing::AllOf(HasSubstr(": not a flag of launch: "), HasSubstr(meant)))
        << given;
  }
  EXPECT_EQ(flag_error_of({"-np", "4", "x"}),
            "-np: not a flag of launch: for the number of workers give --gpus-per-node, "
            "and --nodes if there are several nodes");
  EXPECT_THAT(read({"--workers", "4", "x"}), ElementsAre("gpus-per-node=4"));
  EXPECT_THAT(read({"--nproc", "4", "x"}), ElementsAre("gpus-per-node=4")) << "as torchrun reads it";
}

TEST(Arguments, ReportAMissingValue) {
  EXPECT_EQ(flag_error_of({"--nodes"}), "--nodes: the value is missing: give --nodes N");
  EXPECT_EQ(flag_error_of({"--nodes", "--json", "x"}), "--nodes: the value is missing: give --nodes N");
  EXPECT_EQ(flag_error_of({"--json=yes", "x"}), "--json: takes no value, but got yes");
}

TEST(Arguments, ReportFlagsWithoutEffectAndUnsupportedFlags) {
  const auto sorted = sort_arguments({"--rdzv-backend", "c10d", "--monitor_interval=1", "x"});
  ASSERT_TRUE(sorted);
  EXPECT_EQ(sorted->flags.size(), 2U) << "their values are checked all the same";
  EXPECT_THAT(sorted->notices, ElementsAre(HasSubstr("--rdzv-backend: accepted, but has no effect: "),
                                           HasSubstr("--monitor_interval: accepted, but has no effect: ")));
  EXPECT_THAT(flag_error_of({"--numa-binding", "node", "x"}),
              HasSubstr("--numa-binding: not supported: use "));
}

}  // namespace
}  // namespace muster::launcher
