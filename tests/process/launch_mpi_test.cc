// MPI programs under the real launcher: one world over all nodes, and the culprit of a failure.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "tests/process/launch_run.h"
#include "tests/require.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The segments of this job in /dev/shm.
std::vector<std::string> segments_of(const LaunchRun& run) {
  const std::string job = std::filesystem::path(run.job_directory()).filename();
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().contains(job)) found.push_back(entry.path());
  }
  return found;
}

struct Library {
  const char* name;
  const char* program;  // built with it; empty: its compiler is missing
};
void PrintTo(const Library& library, std::ostream* out) {
  *out << library.name;
}

class LaunchMpi : public testing::TestWithParam<Library> {
 protected:
  void SetUp() override {
    if (*GetParam().program == '\0')
      GTEST_SKIP() << "this machine lacks a compiler of " << GetParam().name << ", or the PMIx library";
  }
  static std::vector<std::string> command(const std::vector<std::string>& deed,
                                          const std::string& restarts = "0") {
    std::vector<std::string> words = {"--nodes",        "2",      "--gpus-per-node", "2",
                                      "--max-restarts", restarts, GetParam().program};
    words.insert(words.end(), deed.begin(), deed.end());
    return words;
  }
};

TEST_P(LaunchMpi, TheRanksOfAllNodesAreInOneWorld) {
  LaunchRun run(command({"world"}));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(run.out(),
                HasSubstr(fmt::format("rank {} of 4, sum 6, from {}, 2 on this node, RANK {}, told {}", rank,
                                      (rank + 3) % 4, rank, rank)));
  EXPECT_THAT(segments_of(run), IsEmpty());
  expect_nothing_left(run);
}

TEST_P(LaunchMpi, ARankThatIsKilledIsToBlameAndAllStartAnew) {
  LaunchRun run(command({"kill", "1", "once"}, "1"));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 1 (node0) was killed by SIGKILL"));
  EXPECT_THAT(segments_of(run), IsEmpty());
  expect_nothing_left(run);
}

// A rank's own memory in /dev/shm is removed, also that of the rank that was killed. Others' memory stays.
TEST_P(LaunchMpi, WhatKilledRanksLeaveInMemoryIsRemoved) {
  const std::string of_others = fmt::format("/dev/shm/psm3_shm.of-others.{}", getpid());
  std::ofstream(of_others) << "theirs";
  LaunchRun run(command({"segment", "1"}));
  EXPECT_EQ(run.exit_code(), 137) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 1 (node0) was killed by SIGKILL"));
  EXPECT_THAT(segments_of(run), IsEmpty());
  EXPECT_TRUE(std::filesystem::remove(of_others));
}

TEST_P(LaunchMpi, AnAbortEndsTheJobWithItsCode) {
  LaunchRun run(command({"abort", "2", "9"}));
  EXPECT_EQ(run.exit_code(), 9);
  EXPECT_THAT(run.err(), HasSubstr("rank 2 (node1) called MPI_Abort with 9"));
  expect_nothing_left(run);
}

TEST_P(LaunchMpi, ARankThatLeavesWithoutFinalizeHasFailed) {
  LaunchRun run(command({"leave", "1"}));
  EXPECT_EQ(run.exit_code(), 1);
  EXPECT_THAT(run.err(), HasSubstr("rank 1 (node0) left with code 0 and without MPI_Finalize"));
  expect_nothing_left(run);
}

// The others wait in MPI_Barrier, as their stacks show.
TEST_P(LaunchMpi, ARankThatStaysAwayFromACollectiveIsToBlameAndAllStartAnew) {
  if (std::system("eu-stack --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "eu-stack is not installed";
  auto words = command({"hang", "1", "once"}, "1");
  words.insert(words.begin(), {"--hang-limit", "5"});
  LaunchRun run(words);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  const auto culprit = run.report()["attempts"][0]["culprit"];
  EXPECT_EQ(culprit["class"], "hang") << run.err();
  EXPECT_EQ(culprit["rank"], 1) << run.err();
  EXPECT_THAT(culprit["cause"].get<std::string>(), HasSubstr("has made no step after step 5"));
  const std::string evidence = culprit["evidence"].dump();
  EXPECT_THAT(evidence, HasSubstr("rank 1: stay_away"));
  EXPECT_THAT(evidence, HasSubstr("MPI_Barrier"));
  EXPECT_EQ(run.report()["restarts"], 1);
  EXPECT_THAT(segments_of(run), IsEmpty());
  expect_nothing_left(run);
}

TEST_P(LaunchMpi, WithoutItEachRankIsAlone) {
  auto words = command({"world"});
  words.insert(words.begin(), {"--mpi", "none"});
  LaunchRun run(words);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("rank 0 of 1, sum 0"));
}

// The program that launch sees is a shell, which needs no MPI.
TEST_P(LaunchMpi, RanksThatAreAloneUnasked) {
  LaunchRun run({"--gpus-per-node", "2", "sh", "-c", "exec \"$0\" wait", GetParam().program});
  const char* const mpi = std::string(GetParam().name) == "OpenMPI" ? "pmix" : "pmi";
  EXPECT_TRUE(
      run.printed(fmt::format("but each of its 2 ranks is alone in MPI_COMM_WORLD: "
                              "give --mpi {}, or --mpi none if that is meant",
                              mpi)))
      << run.err();
  run.signal(SIGTERM);
  run.exit_code();
  expect_nothing_left(run);
}

TEST_P(LaunchMpi, AScriptsFirstCommentSaysWhichItIs) {
  ScratchDirectory scratch;
  const auto script = [&](const std::string& comment) {
    const std::string path = scratch / "job.sh";
    std::ofstream(path) << "#!/bin/sh\n# muster: " << comment << "\nexec " << GetParam().program
                        << " world\n";
    std::filesystem::permissions(path, std::filesystem::perms(0755));
    return path;
  };
  const std::string mpi = std::string(GetParam().name) == "OpenMPI" ? "pmix" : "pmi";
  LaunchRun run({"--gpus-per-node", "2", script("--mpi " + mpi)});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("rank 1 of 2, sum 1"));
  LaunchRun alone({"--gpus-per-node", "2", "--mpi", "none", scratch / "job.sh"});
  EXPECT_EQ(alone.exit_code(), 0) << alone.err();
  EXPECT_THAT(alone.out(), HasSubstr("rank 0 of 1"));
  LaunchRun wrong({script("--mpi pmx")});
  EXPECT_EQ(wrong.exit_code(), 2);
  EXPECT_THAT(wrong.err(),
              HasSubstr("job.sh: # muster: --mpi pmx: such a comment can only say --mpi with auto"));
}

// Both libraries can be built for both kinds, so launch warns about a contradiction but tries it.
TEST_P(LaunchMpi, SaysThatTheProgramIsOneOfTheOtherMpi) {
  const std::string own = std::string(GetParam().name) == "OpenMPI" ? "pmix" : "pmi";
  const std::string other = own == "pmix" ? "pmi" : "pmix";
  const auto told = [](const std::vector<std::string>& flags, const std::string& program) {
    std::vector<std::string> words = flags;
    words.insert(words.end(), {"--max-restarts", "0", program, "world"});
    LaunchRun run(words);
    run.exit_code();
    return run.err();
  };
  EXPECT_THAT(told({"--mpi", other}, GetParam().program),
              HasSubstr(fmt::format("launch: --mpi {} is for {}, but {} is linked with {}: "
                                    "each rank will be alone in its own world, unless its ",
                                    other, own == "pmix" ? "MPICH" : "Open MPI", GetParam().program,
                                    own == "pmix" ? "Open MPI" : "MPICH")));
  EXPECT_THAT(told({"--mpi", own}, GetParam().program), Not(HasSubstr("is for")));
  EXPECT_THAT(told({"--mpi", other}, "true"), Not(HasSubstr("is for"))) << "a wrapper needs no MPI";
}

TEST_P(LaunchMpi, ThePlanSaysWhichItIs) {
  LaunchRun run({"plan", GetParam().program});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("MPI          pm"));
  EXPECT_THAT(run.out(), HasSubstr("stdin        goes to rank 0"));
  LaunchRun other({"plan", "true"});
  EXPECT_EQ(other.exit_code(), 0);
  EXPECT_THAT(other.out(), Not(HasSubstr("MPI")));
}

INSTANTIATE_TEST_SUITE_P(By, LaunchMpi,
                         testing::Values(Library{"OpenMPI", OPENMPI_PROGRAM},
                                         Library{"MPICH", MPICH_PROGRAM}),
                         [](const auto& info) { return std::string(info.param.name); });

class LaunchOpenMpi : public testing::Test {
 protected:
  void SetUp() override {
    if (*OPENMPI_PROGRAM == '\0')
      GTEST_SKIP() << "this machine lacks a compiler of Open MPI, or the PMIx library";
  }
};

TEST_F(LaunchOpenMpi, RanksMeetByAPublishedName) {
  LaunchRun run({"--nodes", "2", "--gpus-per-node", "2", OPENMPI_PROGRAM, "names"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("rank 0 met 3"));
  EXPECT_THAT(run.out(), HasSubstr("rank 3 met 0"));
}

// The limit applies to all nodes: nodes whose own ranks have all connected also give up.
TEST_F(LaunchOpenMpi, AFenceThatARankDoesNotComeToIsGivenUpOnAllNodes) {
  LaunchRun run(
      {"--nodes", "2", "--gpus-per-node", "2", "--max-restarts", "0", OPENMPI_PROGRAM, "late", "3"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  for (int rank = 0; rank < 4; ++rank) {
    if (rank != 3) EXPECT_THAT(run.out(), HasSubstr(fmt::format("rank {}: first fence given up", rank)));
    EXPECT_THAT(run.out(), HasSubstr(fmt::format("rank {}: second fence met", rank)));
  }
  expect_nothing_left(run);
}

TEST_F(LaunchOpenMpi, ASpawnIsRefusedInOneLine) {
  LaunchRun run({OPENMPI_PROGRAM, "spawn", "0"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("spawn was refused"));
  EXPECT_THAT(run.err(), HasSubstr("called MPI_Comm_spawn"));
}

TEST_F(LaunchOpenMpi, ARankThatIsStoppedIsToBlameAndAllStartAnew) {
  LaunchRun run(
      {"--nodes", "2", "--gpus-per-node", "2", "--max-restarts", "1", OPENMPI_PROGRAM, "stop", "3", "once"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 3 (node1) is stopped (SIGSTOP)"));
  const auto culprit = run.report()["attempts"][0]["culprit"];
  EXPECT_EQ(culprit["rank"], 3);
  EXPECT_EQ(culprit["class"], "hang");
  EXPECT_THAT(segments_of(run), IsEmpty());
  expect_nothing_left(run);
}

// Two agents on one host, whose ranks must not use each other's memory; one agent is killed.
TEST_F(LaunchOpenMpi, WhatAKilledAgentLeavesInMemoryIsRemoved) {
  LaunchRun run({"--nodes", "2", "--gpus-per-node", "1", "--max-restarts", "0", OPENMPI_PROGRAM, "wait"});
  ASSERT_TRUE(run.printed("waiting"));
  EXPECT_EQ(segments_of(run).size(), 2U);
  kill(run.agent_of(1), SIGKILL);
  EXPECT_EQ(run.exit_code(), 69);
  expect_nothing_left(run);
  EXPECT_THAT(segments_of(run), IsEmpty());
}

}  // namespace
}  // namespace muster
