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

TEST_F(ProgramFile, OfPythonIsTheScript) {
  const std::string script = file("train.py", std::filesystem::perms(0644));
  EXPECT_TRUE(check_program({"sh", "-u", script}, "/usr/bin:/bin"));
  EXPECT_EQ(check_program({"sh", "-u", scratch / "other.py"}, "/usr/bin:/bin").error().code(),
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace muster::launcher
