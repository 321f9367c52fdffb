// The commands of docs/clusters.md, as a new user would give them one after the other: on the head of a Lab.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hosts/lab.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/run_facts.h"
#include "tests/shell_blocks.h"

namespace muster::hosts {
namespace {

using testing::HasSubstr;

// Where the page says /shared, the Lab has `shared`.
std::string in_lab(std::string block, const std::string& shared) {
  for (std::size_t at = block.find("/shared/"); at != std::string::npos;
       at = block.find("/shared/", at + shared.size()))
    block.replace(at, 7, shared);
  return block;
}

void write_program(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  std::filesystem::permissions(path, std::filesystem::perms(0755));
}

TEST(ClustersPage, EveryCommandDoesWhatThePageSays) {
  if (const std::string why = why_no_lab(); !why.empty()) GTEST_SKIP() << why;
  const Lab lab(4);
  const std::string work = lab.shared() + "/work";
  std::filesystem::create_directories(work + "/bin");
  write_program(
      work + "/train.py",
      "import os, muster\nmuster.step(1)\nprint('python rank', os.environ['RANK'], os.uname().nodename)\n");
  std::filesystem::create_symlink(TRAIN_PROGRAM, work + "/train");
  // A program that enters a host stands for the one that containers have.
  write_program(work + "/bin/lxc",
                "#!/bin/sh\nhost=$2\nshift 3\nexec " + lab.enter_program() + " $host \"$@\"\n");
  const std::string programs = std::filesystem::path(LAUNCH_PROGRAM).parent_path();
  std::string all;
  for (const std::string& each : shell_blocks(CLUSTERS_DOCUMENT)) {
    const std::string block = in_lab(each, lab.shared());
    std::string said;
    const std::string script = "cd " + work + "; unset TMPDIR; export PATH=" + work + "/bin:" + programs +
                               ":$PATH HOME=" + lab.home(0) + "; set -euo pipefail\n" + block;
    EXPECT_EQ(lab.head().run({"bash", "-c", script}, &said), 0) << block << said;
    all += block + said + "\n";
  }
  for (const char* text :
       {"rank 1 of 2 on h1", "python rank 3 h1",
        "rank 2 (node1, h1) was killed by SIGKILL at step 30; attempt 2 resumes from step 20",
        "4 ranks succeeded", "node1:2: h1", ": rank 1: 16 0.1 6", "rank 1 got yes", "rank 1 runs slow"})
    EXPECT_THAT(all, HasSubstr(text));
  EXPECT_EQ(count_in(all, "node0:0: parameters xxh3 "), 2) << "as it ran, and from its log";
  if (std::getenv("CLUSTERS_PAGE_SHOW") != nullptr) std::fputs(all.c_str(), stdout);
  for (int i = 0; i < lab.size(); ++i)
    EXPECT_TRUE(eventually([&] { return lab.processes(i).empty(); }, std::chrono::seconds(10)))
        << "on h" << i;
}

}  // namespace
}  // namespace muster::hosts
