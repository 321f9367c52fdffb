// Runs the commands of docs/clusters.md in order, as a new user would, on the head of a Lab.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hosts/lab.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/run_facts.h"

namespace muster::hosts {
namespace {

using testing::HasSubstr;

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
  // A program that enters a host replaces the one for containers.
  write_program(work + "/bin/lxc",
                "#!/bin/sh\nhost=$2\nshift 3\nexec " + lab.enter_program() + " $host \"$@\"\n");
  const std::string programs = std::filesystem::path(LAUNCH_PROGRAM).parent_path();
  std::string all;
  // The page's /shared is a folder of the Lab.
  EXPECT_EQ(lab.head().run({"env", "HOME=" + lab.home(0), "PATH=" + work + "/bin:" + std::getenv("PATH"),
                            "python3", "-B", RUN_PAGES, "--where", "hosts", "--bin", programs, "--in", work,
                            "--replace", "/shared/=" + lab.shared() + "/", "--seconds", "200", "--show",
                            CLUSTERS_DOCUMENT},
                           &all),
            0)
      << all;
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
