#include "launcher/io/settings/program_file.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scratch_directory.h"

namespace muster::launcher {
namespace {

using testing::HasSubstr;

class ProgramFile : public testing::Test {
 protected:
  std::string file(const std::string& name, std::filesystem::perms mode) {
    std::ofstream(scratch / name) << "#!/bin/sh\n";
    std::filesystem::permissions(scratch / name, mode);
    return scratch / name;
  }
  ScratchDirectory scratch;
};

TEST_F(ProgramFile, IsLookedUpInThePath) {
  file("train", std::filesystem::perms(0755));
  EXPECT_TRUE(check_program({"train"}, "/nowhere:" + scratch.path().string()));
  EXPECT_TRUE(check_program({scratch / "train"}, ""));
}

TEST_F(ProgramFile, CanBeAScript) {
  EXPECT_EQ(script_of({"/usr/bin/python3", "-u", "train.py", "eval.py"}, ""), "train.py");
  EXPECT_EQ(script_of({"python3", "-X", "dev", "-m", "mpi4py", "train.py"}, ""), "train.py");
  EXPECT_EQ(script_of({"python3", "-u", "-m", "train", "conf.py"}, ""), "");
  EXPECT_EQ(script_of({"python3", "-c", "pass", "conf.py"}, ""), "");
  EXPECT_EQ(script_of({"python3", "tool", "conf.py"}, ""), "");
  EXPECT_EQ(script_of({file("train.sh", std::filesystem::perms(0755)), "x.py"}, ""), scratch / "train.sh");
}

TEST_F(ProgramFile, IsNotFound) {
  for (const std::string& name : {std::string("no-such-program"), scratch / "missing"}) {
    const Status found = check_program({name}, "/usr/bin:/bin");
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), ErrorCode::kNotFound);
    EXPECT_THAT(found.error().message(), HasSubstr(name + ": not found"));
  }
}

TEST_F(ProgramFile, MayNotBeExecuted) {
  const std::string plain = file("plain", std::filesystem::perms(0644));
  EXPECT_EQ(check_program({plain}, "").error().code(), ErrorCode::kPermission);
  EXPECT_EQ(check_program({"plain"}, scratch.path().string()).error().code(), ErrorCode::kPermission);
  EXPECT_EQ(check_program({scratch.path().string()}, "").error().code(), ErrorCode::kPermission)
      << "a directory";
}

TEST_F(ProgramFile, IsReportedWithASuggestion) {
  const auto message_about = [](const std::string& name) {
    return check_program({name}, "/usr/bin:/bin").error().message();
  };
  EXPECT_EQ(message_about(file("run.sh", std::filesystem::perms(0644))),
            fmt::format("{0}: not executable (if it is a program: chmod +x {0})", scratch / "run.sh"));
  EXPECT_EQ(message_about("echo hi; sleep 1"),
            "echo hi; sleep 1: not found in PATH: a shell command line needs `sh -c 'echo hi; sleep 1'`");
  file("here", std::filesystem::perms(0755));
  file("README", std::filesystem::perms(0644));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  EXPECT_EQ(message_about("here"), "here: not found in PATH: did you mean ./here?");
  EXPECT_EQ(message_about("README"),
            "README: not found in PATH: here it is a file that is not executable (if it is a program: "
            "chmod +x README)");
  EXPECT_EQ(message_about("."), ".: not found in PATH: here it is a directory");
  std::filesystem::current_path(before);
}

TEST_F(ProgramFile, IsReportedWithASimilarFileAsASuggestion) {
  const std::string train = file("train", std::filesystem::perms(0755));
  file("triad", std::filesystem::perms(0644));
  const std::string script = file("train.py", std::filesystem::perms(0644));
  const auto message_about = [](const std::vector<std::string>& command) {
    return check_program(command, "/usr/bin:/bin").error().message();
  };
  EXPECT_EQ(message_about({scratch / "trian"}),
            fmt::format("{}: not found: did you mean {}?", scratch / "trian", train));
  EXPECT_EQ(message_about({"sh", "-u", scratch / "trian.py"}),
            fmt::format("{}: not found: did you mean {}?", scratch / "trian.py", script));
  EXPECT_EQ(message_about({scratch / "evaluate"}), scratch / "evaluate: not found");
  EXPECT_EQ(message_about({scratch / "nowhere/train"}), scratch / "nowhere/train: not found");
}

TEST_F(ProgramFile, IsTheScriptForPython) {
  const std::string script = file("train.py", std::filesystem::perms(0644));
  EXPECT_TRUE(check_program({"sh", "-u", script}, "/usr/bin:/bin"));
  EXPECT_EQ(check_program({"sh", "-u", scratch / "other.py"}, "/usr/bin:/bin").error().code(),
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace muster::launcher
