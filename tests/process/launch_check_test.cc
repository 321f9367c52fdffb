// `launch check` on this machine, and with something missing.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::HasSubstr;

class LaunchCheck : public testing::Test {
 protected:
  nlohmann::json checked(std::vector<std::string> words, int exit_code,
                         std::map<std::string, std::string> environment = {}) const {
    words.insert(words.begin(), {"check", "--json", "--log-dir", scratch / "logs"});
    LaunchRun run(words, environment);
    EXPECT_EQ(run.exit_code(), exit_code) << run.out() << run.err();
    nlohmann::json results;
    for (const auto& each : nlohmann::json::parse(run.out())["checks"]) results[each["name"]] = each;
    return results;
  }
  ScratchDirectory scratch;
};

TEST_F(LaunchCheck, FindsThisMachineFitAndLeavesNothing) {
  LaunchRun run({"check", "--device", "cpu", "--log-dir", scratch / "logs", "true"});
  EXPECT_EQ(run.exit_code(), 0) << run.out();
  for (const char* name : {"OK    program ", "OK    torch ", "OK    GPUs ", "OK    agent ", "OK    ports ",
                           "OK    open files ", "OK    clock ", "OK    checkpoints "})
    EXPECT_THAT(run.out(), HasSubstr(name));
  EXPECT_FALSE(std::filesystem::exists(scratch / "logs"));
}

TEST_F(LaunchCheck, NeedsNoProgram) {
  const auto results = checked({}, 0);
  EXPECT_FALSE(results.contains("program"));
  EXPECT_TRUE(results.contains("torch"));
}

TEST_F(LaunchCheck, ProvesTheCheckpointDirectoryForEveryNodeAndTidiesUp) {
  std::filesystem::create_directories(scratch / "ckpt");
  const auto results = checked({"--nodes", "3", "--checkpoint-dir", scratch / "ckpt", "true"}, 0);
  EXPECT_EQ(results["checkpoints"]["text"],
            fmt::format("each of 3 nodes writes, syncs and reads in {}", scratch / "ckpt"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "ckpt"));
  checked({"--checkpoint-dir", scratch / "new/er", "true"}, 0);
  EXPECT_FALSE(std::filesystem::exists(scratch / "new"));
}

TEST_F(LaunchCheck, FailsWithWhatToDo) {
  const auto results = checked({"--checkpoint-dir", "/proc/nowhere", "no-such-program"}, 1);
  EXPECT_EQ(results["program"]["result"], "fail");
  EXPECT_EQ(results["checkpoints"]["result"], "fail");
  EXPECT_THAT(results["checkpoints"]["text"].get<std::string>(), HasSubstr("/proc/nowhere"));
  for (const char* name : {"program", "checkpoints"}) EXPECT_NE(results[name]["advice"], "");
}

TEST_F(LaunchCheck, CountsTheFilesThatAgentsWillOpen) {
  const auto under = [&](const char* limits) {
    LaunchRun run({"-c", fmt::format("{} && exec {} check --log-dir {} --gpus-per-node 100 true", limits,
                                     LAUNCH_PROGRAM, scratch / "logs")},
                  {}, "/bin/sh");
    run.exit_code();
    return run.out();
  };
  EXPECT_THAT(under("ulimit -n 256"), HasSubstr("-> ulimit -n 864\n"));
  EXPECT_THAT(under("ulimit -Sn 256 && ulimit -Hn 1000"),
              HasSubstr("OK    open files     an agent may open 1000 and needs 864\n"))
      << "an agent raises its limit to the hard one";
}

TEST_F(LaunchCheck, AsksThePythonThatWouldRunTheScript) {
  std::ofstream(scratch / "train.py") << "";
  const std::string python = scratch / "python-fake";
  std::ofstream(python) << "#!/bin/sh\necho torch 9.8.7 /somewhere\n";
  std::filesystem::permissions(python, std::filesystem::perms(0755));
  const auto with = checked({scratch / "train.py"}, 0, {{"PYTHON_EXEC", python}});
  EXPECT_EQ(with["torch"]["text"], "torch 9.8.7 in " + python);
  EXPECT_EQ(with["program"]["text"],
            fmt::format("{} is readable, and {} is executable", scratch / "train.py", python));
  const std::map<std::string, std::string> bare = {{"PYTHON_EXEC", python}, {"PATH", scratch.path()}};
  const auto without_spy = checked({scratch / "train.py"}, 0, bare);
  EXPECT_EQ(without_spy["py-spy"]["result"], "warn");
  EXPECT_THAT(without_spy["py-spy"]["text"].get<std::string>(), HasSubstr("show no Python frames"));
  EXPECT_EQ(without_spy["py-spy"]["advice"], "pip install py-spy");
  std::ofstream(scratch / "py-spy") << "";
  std::filesystem::permissions(scratch / "py-spy", std::filesystem::perms(0755));
  EXPECT_EQ(checked({scratch / "train.py"}, 0, bare)["py-spy"]["text"], scratch / "py-spy");
  EXPECT_FALSE(checked({"true"}, 0).contains("py-spy"));
  std::ofstream(python) << "#!/bin/sh\necho torch - -\n";
  EXPECT_EQ(checked({scratch / "train.py"}, 0, {{"PYTHON_EXEC", python}})["torch"]["result"], "warn");
  for (const char* line :
       {"import torch", "import os, torch.nn as nn", "if True:\n  from torch.utils import data"}) {
    std::ofstream(scratch / "train.py") << "import os\n" << line << "\n";
    const auto without = checked({scratch / "train.py"}, 1, {{"PYTHON_EXEC", python}});
    EXPECT_EQ(without["torch"]["result"], "fail") << line;
    EXPECT_EQ(without["torch"]["text"], python + " has no torch, which the script imports");
    checked({python, "-u", scratch / "train.py"}, 1);
  }
  std::ofstream(scratch / "train.py") << "import torchlike\n# import torch\n";
  EXPECT_EQ(checked({scratch / "train.py"}, 0, {{"PYTHON_EXEC", python}})["torch"]["result"], "warn");
  EXPECT_EQ(checked({scratch / "train.py"}, 1, {{"PYTHON_EXEC", "/no/python"}})["torch"]["result"], "fail");
}

}  // namespace
}  // namespace muster
