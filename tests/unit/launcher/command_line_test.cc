#include "launcher/io/settings/command_line.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/version.h"
#include "launcher/core/settings/completion.h"
#include "tests/scratch_directory.h"

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CommandLine : public testing::Test {
 protected:
  CommandLine() {
    here.environment["HOME"] = "/home/ada";
    here.working_directory = scratch.path().string();
  }
  Expected<Options> options(const std::vector<std::string>& words) {
    auto asked = read_command_line(words, here);
    if (!asked) return std::unexpected(asked.error());
    return std::get<Request>(*asked).options;
  }
  std::string error(const std::vector<std::string>& words) {
    const auto read = options(words);
    return read ? "(no error)" : read.error().message();
  }
  void write(const std::string& text) { std::ofstream(scratch / "job.yaml") << text; }

  ScratchDirectory scratch;
  Surroundings here;
};

TEST_F(CommandLine, PrefersFlagsToVariablesToTheFile) {
  write("nodes: 4\ngpus_per_node: 5\ngrace: 6\nprogram: [train, --lr, 0.1]\n");
  here.environment["MUSTER_GPUS_PER_NODE"] = "3";
  here.environment["MUSTER_NODES"] = "3";
  const auto read = options({"--config", "job.yaml", "--nodes", "2"});
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->nodes, 2);
  EXPECT_EQ(read->workers_per_node.number, 3);
  EXPECT_EQ(read->limits.grace, std::chrono::seconds(6));
  EXPECT_THAT(read->program, ElementsAre("train", "--lr", "0.1"));
}

TEST_F(CommandLine, TakesWorkersPerNodeWhereverGpusPerNodeIsTaken) {
  EXPECT_EQ(options({"--workers-per-node", "2", "train"})->workers_per_node.number, 2);
  write("workers-per-node: 3\nprogram: [train]\n");
  EXPECT_EQ(options({"--config", "job.yaml"})->workers_per_node.number, 3);
  here.environment["MUSTER_WORKERS_PER_NODE"] = "4";
  EXPECT_EQ(options({"train"})->workers_per_node.number, 4);
  EXPECT_EQ(error({"--workers-per-node", "2", "--gpus-per-node", "2", "train"}),
            "--gpus-per-node: means the same as --workers-per-node: give only one of them");
  EXPECT_THAT(error({"--workers_per_node", "none", "train"}),
              HasSubstr("--workers_per_node: none is not a number of workers"));
}

TEST_F(CommandLine, TakesTheProgramOfTheCommandLineFirst) {
  write("program: [train]\nenv: {A: 1, B: two}\njson: true\n");
  const auto read = options({"--config", "job.yaml", "other", "x"});
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_THAT(read->program, ElementsAre("other", "x"));
  EXPECT_EQ(read->added.at("B"), "two");
  EXPECT_TRUE(read->json);
}

TEST_F(CommandLine, AddsArgumentsAfterTwoDashesToTheFilesProgram) {
  write("program: [train, --lr, 0.1]\n");
  const auto program = [&](const std::vector<std::string>& words) { return options(words)->program; };
  EXPECT_THAT(program({"--config", "job.yaml", "--", "--epochs", "3"}),
              ElementsAre("train", "--lr", "0.1", "--epochs", "3"));
  EXPECT_THAT(program({"--config", "job.yaml", "--", "-q"}), ElementsAre("train", "--lr", "0.1", "-q"));
  EXPECT_THAT(program({"--config", "job.yaml", "--", "other", "-q"}), ElementsAre("other", "-q"));
  EXPECT_THAT(program({"--config", "job.yaml", "--"}), ElementsAre("train", "--lr", "0.1"));
  write("nodes: 2\n");
  EXPECT_THAT(program({"--config", "job.yaml", "--", "--odd-program"}), ElementsAre("--odd-program"));
}

TEST_F(CommandLine, ReportsAnyErrorInTheFileInOneLine) {
  for (const char* text : {"\"no\\ndes\": 2\n", "nodes: \"2\\n3\"\n", "role: \"\\\x01\"\n"}) {
    write(text);
    const std::string said = error({"--config", "job.yaml", "x"});
    EXPECT_THAT(said, HasSubstr("job.yaml")) << text;
    EXPECT_EQ(said.find_first_of("\n\x1b\x01"), std::string::npos) << said;
  }
}

TEST_F(CommandLine, NamesFileLineAndKeyOfAnError) {
  write("nodes: 2\nndoes: 3\n");
  EXPECT_THAT(error({"--config", "job.yaml", "x"}),
              HasSubstr("job.yaml line 2: ndoes: not a flag of launch: did you mean --nodes?"));
  write("nodes: [1, 2]\n");
  EXPECT_THAT(error({"--config", "job.yaml", "x"}), HasSubstr("line 1: nodes: takes one value"));
  write("json: perhaps\n");
  EXPECT_THAT(error({"--config", "job.yaml", "x"}), HasSubstr("json: perhaps is neither true nor false"));
  write("nodes: 0\n");
  EXPECT_THAT(error({"--config", "job.yaml", "x"}), HasSubstr("job.yaml: 0 is not a number of nodes"));
  write("a: [1\n");
  EXPECT_THAT(error({"--config", "job.yaml", "x"}), testing::EndsWith("job.yaml line 2: a ] is missing"));
  write("nodes: 2\nenv: {A: 1\ngrace: 3\n");
  EXPECT_THAT(error({"--config", "job.yaml", "x"}), testing::EndsWith(": a } is missing"));
  write("just text");
  EXPECT_THAT(error({"--config", "job.yaml", "x"}), HasSubstr("must have `flag: value` lines"));
  EXPECT_THAT(error({"--config", "missing.yaml", "x"}), HasSubstr("missing.yaml: No such file or directory"));
}

TEST_F(CommandLine, PutsTheEnvironmentIntoTheFilesValues) {
  here.environment["SCRATCH"] = "/fast";
  write(
      "checkpoint-dir: ~/ckpt\nlog-dir: ${SCRATCH}/logs/$SCRATCH\nrole: a$5$\nenv: {PLACE: $SCRATCH/x, "
      "PRICE: 5$$SCRATCH, "
      "TILDE: x~}\n"
      "log-line-prefix-template: '${rank} '\n"
      "program: [~/train, --data=$SCRATCH/d, 'echo $RANK ${local_rank}', a~]\n");
  const auto asked = read_command_line({"--config", "job.yaml"}, here);
  ASSERT_TRUE(asked) << asked.error().message();
  const Options& read = std::get<Request>(*asked).options;
  EXPECT_EQ(read.checkpoint_directory, "/home/ada/ckpt");
  EXPECT_EQ(read.log_directory, "/fast/logs/fast");
  EXPECT_EQ(read.role, "a$5$");
  EXPECT_EQ(read.added, (std::map<std::string, std::string>{
                            {"PLACE", "/fast/x"}, {"PRICE", "5$SCRATCH"}, {"TILDE", "x~"}}));
  EXPECT_EQ(std::get<Request>(*asked).display.line_prefix, "${rank} ");
  EXPECT_THAT(read.program,
              ElementsAre("/home/ada/train", "--data=/fast/d", "echo $RANK ${local_rank}", "a~"));
  write("nodes: 1\ncheckpoint-dir: $SCRACH/c\n");
  EXPECT_THAT(error({"--config", "job.yaml", "x"}),
              HasSubstr("job.yaml line 2: checkpoint-dir: $SCRACH is not set"));
  here.environment.erase("HOME");
  write("checkpoint-dir: ~/ckpt\n");
  EXPECT_THAT(error({"--config", "job.yaml", "x"}), HasSubstr("checkpoint-dir: ~/ckpt: HOME is not set"));
}

TEST_F(CommandLine, WantsTheFilesProgramAsAListAndShowsIt) {
  write("nodes: 2\nprogram: train.py  --lr 0.1 --name a:b\n");
  EXPECT_THAT(error({"--config", "job.yaml"}),
              HasSubstr("job.yaml line 2: program: is a list of words: write `program: [train.py, --lr, 0.1, "
                        "--name, \"a:b\"]`"));
  write("program: {train: 1}\n");
  EXPECT_THAT(error({"--config", "job.yaml"}), HasSubstr("program: is a list of words: write `program: ["));
}

TEST_F(CommandLine, RefusesDuplicateKeysInTheFile) {
  const std::pair<const char*, const char*> twice[] = {
      {"nodes: 1\ngrace: 2\nnodes: 3\n", "job.yaml line 3: nodes: already given in line 1"},
      {"gpus-per-node: 1\ngpus_per_node: 1\n", "line 2: gpus-per-node: already given in line 1"},
      {"nodes: 1\nnnodes: 1\n", "line 2: nodes: already given in line 1"},
      {"program: [a]\nprogram: [b]\n", "line 2: program: already given in line 1"},
      {"env: {A: 1, A: 2}\n", "line 1: env: A appears twice"}};
  for (const auto& [text, message] : twice) {
    write(text);
    EXPECT_THAT(error({"--config", "job.yaml", "x"}), HasSubstr(message)) << text;
  }
}

TEST_F(CommandLine, ShowsTheLineOfTheFileWhoseIndentIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"nodes: 2\n  gpus-per-node: 2\n", "line 2: `  gpus-per-node: 2`: "},
      {"env:\n  A: 1\n B: 2\n", "line 3: ` B: 2`: "},
      {"env:\n\tA: 1\n", "line 2: `?A: 1`: "}};
  for (const auto& [text, message] : wrong) {
    write(text);
    const std::string said = error({"--config", "job.yaml", "x"});
    EXPECT_THAT(said, HasSubstr("job.yaml " + std::string(message))) << text;
    EXPECT_THAT(said, HasSubstr("indent their values with spaces"));
  }
}

TEST_F(CommandLine, DoesNotQuoteAnEmptyLineOfTheFile) {
  write("nodes: [1,\n");
  EXPECT_THAT(error({"--config", "job.yaml", "x"}), HasSubstr("job.yaml line 2: a ] is missing"));
}

TEST_F(CommandLine, TakesTheLastOfARepeatedFlagAndAllOfEnv) {
  const auto read =
      options({"--nodes", "1", "--nodes=2", "--env", "A=1", "--env", "B=x y,z", "--json", "train"});
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->nodes, 2);
  EXPECT_EQ(read->added, (std::map<std::string, std::string>{{"A", "1"}, {"B", "x y,z"}}));
  EXPECT_TRUE(read->json);
}

TEST_F(CommandLine, NamesTheValueOfARepeatedFlagThatDoesNotCount) {
  const auto told = [&](const std::vector<std::string>& words) {
    return std::get<Request>(*read_command_line(words, here)).notices;
  };
  EXPECT_THAT(told({"--nodes", "1", "--nodes=2", "train"}),
              ElementsAre("--nodes: given as 1 and as 2: the last one counts"));
  EXPECT_THAT(told({"--max_restarts", "1", "--max-restarts", "0", "train"}),
              ElementsAre("--max-restarts: given as 1 and as 0: the last one counts"));
  EXPECT_THAT(told({"--role=", "--role", "x", "train"}),
              ElementsAre("--role: given as (empty) and as x: the last one counts"));
  EXPECT_THAT(
      told({"--nodes", "2", "--nodes", "2", "--json", "--json", "--env", "A=1", "--env", "A=2", "train"}),
      ElementsAre());
}

TEST_F(CommandLine, TakesAListOfEveryFlagThatMayBeRepeated) {
  write("image: debian\nmount: [/a:/a, /b:/b]\ncontainer-arg: {ipc: host, dns: 10.0.0.1}\n");
  const auto read = options({"--config", "job.yaml", "train"});
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->remote.container.mounts.size(), 2U);
  EXPECT_EQ(read->remote.container.arguments.size(), 2U);
}

TEST_F(CommandLine, KeepsOddValuesUnchanged) {
  const auto read = options({"--env", "A=[1,2]", "--env=B=", "--env", "C=--x", "train"});
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->added, (std::map<std::string, std::string>{{"A", "[1,2]"}, {"B", ""}, {"C", "--x"}}));
}

TEST_F(CommandLine, AnswersHelpAndVersion) {
  const auto help = read_command_line({"--help"}, here);
  ASSERT_TRUE(help);
  for (const char* part : {"Usage: launch", "--gpus-per-node M", "Number of nodes",
                           "launch --nodes 2 --gpus-per-node 2 ./train"}) {
    EXPECT_THAT(std::get<Answer>(*help).text, HasSubstr(part));
  }
  EXPECT_EQ(std::get<Answer>(*read_command_line({"--print-completion", "zsh"}, here)).text,
            completion_for("zsh"));
  EXPECT_EQ(error({"--print_completion=tcsh", "x"}),
            "--print_completion: tcsh: unknown shell: give bash, zsh or fish");
  here.environment["PET_PRINT_COMPLETION"] = "zsh";  // as in torchrun, a flag without a variable
  EXPECT_TRUE(options({"x"}));
  EXPECT_EQ(std::get<Answer>(*read_command_line({"--version"}, here)).text,
            "launch (Muster) " + std::string(kVersion) + "\n");
}

}  // namespace
}  // namespace muster::launcher
