// An agent in a container also forks ranks from a template, reports their stacks, and notices a stopped rank.
#include <csignal>
#include <fstream>

#include "tests/docker/launch_containers.h"

namespace muster::docker {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

std::string events_of(const LaunchRun& run) {
  return read_file(run.job_directory() + "/events.jsonl", 1 << 24).value_or("");
}

TEST_F(DockerLaunch, RanksAreForkedFromATemplateThereAgainAfterALoss) {
  // The image lacks libstdc++, which this program needs.
  Words flags{"--nodes", "2", "--gpus-per-node", "2", "--warm"};
  for (const std::string file :
       {WARM_RANK, "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/lib/x86_64-linux-gnu/libgcc_s.so.1"})
    flags.insert(flags.end(), {"--mount", fmt::format("{0}:{0}:ro", file)});
  launch(flags, {WARM_RANK, "--", "ready", "wait"});
  ASSERT_TRUE(eventually([this] { return count_in(run_->out(), "ready\n") == 4; })) << run_->err();
  engine().printed_by({"kill", container_of(1)});
  ASSERT_TRUE(eventually([this] { return count_in(run_->out(), "ready\n") == 8; })) << run_->err();
  run_->signal(SIGINT);
  EXPECT_EQ(run_->exit_code(), 130) << run_->err();
  EXPECT_EQ(count_in(events_of(*run_), "2 workers, 2 of them forked"), 4) << run_->err();
}

TEST_F(DockerLaunch, TheDumpAndTheVerdictKnowWhatARankThereDoes) {
  launch({"--nodes", "2", "--gpus-per-node", "1", "--max-restarts", "0"},
         {"sh", "-c",
          "echo ready 0; [ $RANK = 1 ] && exec sleep 1000; "
          "until [ -e stop ]; do sleep 0.05; done; kill -STOP $$"});
  ASSERT_NO_FATAL_FAILURE(all_are_ready(*run_, 2));
  // Rank 1 prints its ready line before it executes sleep.
  std::unique_ptr<LaunchRun> dumped;
  const bool sleeps = eventually([&] {
    dumped =
        ended({"dump"}, {{"MUSTER_LOG_DIR", std::filesystem::path(run_->job_directory()).parent_path()}});
    return testing::Matches(ContainsRegex("\\(sleep\\): sleeps, system call .*nanosleep"))(dumped->out());
  });
  EXPECT_TRUE(sleeps) << dumped->out();
  EXPECT_EQ(dumped->exit_code(), 0) << dumped->err();
  EXPECT_THAT(dumped->out(),
              AllOf(HasSubstr("---- rank 0 (node0, muster-"), HasSubstr("---- rank 1 (node1, muster-")));
  std::ofstream(run_->scratch() / "stop") << "\n";
  EXPECT_EQ(run_->exit_code(), 124) << run_->err();
  EXPECT_THAT(run_->err(), ContainsRegex("rank 0 \\(node0, muster-[^)]*\\) is stopped"));
}

// Uses this machine's Open MPI and PMIx, with the C library that they were built for: mounts this machine's
// library folder over the image's.
TEST_F(DockerLaunch, MpiRanksOfThreeContainersAreInOneWorldAlsoAfterALoss) {
  if (*OPENMPI_PROGRAM == '\0')
    GTEST_SKIP() << "this machine lacks a compiler of Open MPI, or the PMIx library";
  Words flags{"--mpi", "pmix",           "--nodes", "3",     "--gpus-per-node",
              "2",     "--max-restarts", "1",       "--env", "OMPI_MCA_btl_vader_single_copy_mechanism=none"};
  for (const char* const path : {"/usr/lib/x86_64-linux-gnu", OPENMPI_PROGRAM})
    flags.insert(flags.end(), {"--mount", fmt::format("{0}:{0}:ro", path)});
  launch(flags, {OPENMPI_PROGRAM, "world"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err() << run_->out();
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_THAT(run_->out(),
                HasSubstr(fmt::format("rank {} of 6, sum 15, from {}, 2 on this node, RANK {}, told {}", rank,
                                      (rank + 5) % 6, rank, rank)));
  launch(flags, {OPENMPI_PROGRAM, "kill", "4", "once"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err() << run_->out();
  EXPECT_THAT(run_->err(), ContainsRegex("rank 4 \\(node2, [^)]*\\) was killed by SIGKILL"));
}

}  // namespace
}  // namespace muster::docker
