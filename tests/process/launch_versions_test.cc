// The real launcher with a real agent of another version: a copy of its program in which the text of the
// version is another one of the same length.
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "common/base/version.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::Not;

class LaunchVersions : public testing::Test {
 protected:
  // Makes an agent whose version begins with `digit`, next to a copy of launch.
  void make_agent(char digit) {
    std::filesystem::create_directories(scratch / "bin");
    std::string program = read_file(AGENT_PROGRAM, std::size_t{1} << 30).value();
    const std::string own(kVersion);
    version = own;
    version[0] = digit;
    std::size_t count = 0;
    for (std::size_t at = 0; (at = program.find(own, at)) != std::string::npos; ++count)
      program.replace(at, own.size(), version);
    ASSERT_GT(count, 0U);
    std::ofstream(agent, std::ios::binary) << program;
    std::filesystem::permissions(agent, std::filesystem::perms(0755));
  }
  std::string refusal(const char* relation) const {
    return fmt::format(
        "its agent cannot be used: the agent is {} this launcher (Muster {}, not {}): "
        "install the same Muster on all nodes",
        relation, version, kVersion);
  }
  // Runs launch on two hosts. Only the second has the agent of another version.
  std::vector<std::string> on_hosts(std::vector<std::string> words) const {
    const std::string on = scratch / "on";
    std::ofstream(on) << fmt::format(
        "#!/bin/sh\nhost=$1; shift\n[ $host != h1 ] || {{ shift; set -- {} \"$@\"; }}\nexec \"$@\"\n", agent);
    std::filesystem::permissions(on, std::filesystem::perms(0755));
    words.insert(words.end(),
                 {"--hosts", "h0,h1", "--exec", on + " {host}", "--remote-agent", AGENT_PROGRAM, "true"});
    return words;
  }
  static void expect_one_try(LaunchRun& run, int exit_code, const std::string& line) {
    EXPECT_EQ(run.exit_code(), exit_code) << run.err();
    EXPECT_THAT(run.err(), HasSubstr(line));
    EXPECT_THAT(run.err(), Not(HasSubstr("retrying")));
    EXPECT_EQ(run.report()["restarts"], 0);
    expect_nothing_left(run);
  }

  ScratchDirectory scratch;
  std::string agent = scratch / "bin/muster-agent";
  std::string version;
};

TEST_F(LaunchVersions, AnotherVersionEndsAJobOnThisMachineAtOnce) {
  for (const auto& [digit, relation] : {std::pair('9', "newer than"), std::pair('/', "older than")}) {
    make_agent(digit);
    const std::string launch = scratch / "bin/launch";
    std::filesystem::copy_file(LAUNCH_PROGRAM, launch, std::filesystem::copy_options::overwrite_existing);
    LaunchRun run({"true"}, {}, launch);
    expect_one_try(run, 125, "node0: " + refusal(relation));
  }
}

TEST_F(LaunchVersions, AnotherVersionEndsAJobOnHostsAtOnceAndCheckNamesTheHost) {
  make_agent('9');
  LaunchRun run(on_hosts({}));
  expect_one_try(run, 69, "h1: " + refusal("newer than"));
  LaunchRun check(on_hosts({"check"}));
  EXPECT_EQ(check.exit_code(), 1) << check.err();
  EXPECT_THAT(check.out(), HasSubstr("FAIL  h1: " + refusal("newer than") + "\n"));
  EXPECT_THAT(check.out(), Not(HasSubstr("FAIL  h0")));
}

TEST_F(LaunchVersions, TheAgentNamesItsVersion) {
  LaunchRun run({"--version"}, {}, AGENT_PROGRAM);
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_THAT(run.out(), testing::StartsWith(fmt::format("muster-agent (Muster) {}, protocol", kVersion)));
}

}  // namespace
}  // namespace muster
