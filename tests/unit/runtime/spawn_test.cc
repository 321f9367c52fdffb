#include <ATen/Parallel.h>
#include <barrier>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <muster/muster.h>
#include <poll.h>
#include <sched.h>
#include <set>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/base/file.h"
#include "tests/require.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

SpawnError error_of(const std::function<void(Job&)>& function, int nprocs) {
  try {
    spawn(function, nprocs);
  } catch (const SpawnError& error) {
    return error;
  }
  return {"spawn did not throw", -1, 0, 0};
}

// Rank 0 serves the store; the others need it to make their group.
TEST(Spawn, KeepsRankZeroInNewGroupUntilItsMembersHaveIt) {
  spawn(
      [](Job& job) {
        const Group others = job.new_group({1, 2});
        if (job.rank() == 0)
          require(job.store()->check({"muster/group-0/made/all"}), "both have it");
        else
          require_equal(all_reduce(others, job.rank()), 3, "sum of the others");
        _exit(0);  // at once: whoever is left has no store
      },
      3);
}

TEST(Spawn, RunsEveryRankOfTheWorldInItsOwnProcess) {
  ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        require_equal(job.world_size(), 4, "world size");
        require_equal(job.local_rank(), job.rank(), "local rank");
        std::ofstream(scratch / std::to_string(job.rank())) << getpid();
        job.barrier();
      },
      4);
  std::set<std::string> pids;
  for (int rank = 0; rank < 4; ++rank) {
    std::string pid;
    std::ifstream(scratch / std::to_string(rank)) >> pid;
    pids.insert(pid);
  }
  EXPECT_EQ(pids.size(), 4U);
  EXPECT_EQ(pids.count(std::to_string(getpid())), 0U);
}

// The names of this process's threads, by their policies.
std::map<int, std::multiset<std::string>> threads_by_policy() {
  std::map<int, std::multiset<std::string>> threads;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(thread.path() / "comm"), name);
    threads[sched_getscheduler(std::stoi(thread.path().filename()))].insert(name);
  }
  return threads;
}

TEST(Spawn, GivesRanksWhoseGlooTakesNoProcessorFromThem) {
  spawn(
      [](Job& job) {
        job.barrier();
        require_equal(sched_getscheduler(0), SCHED_OTHER, "policy of the thread that trains");
        // Before LibTorch 2.11 Gloo's threads have the program's name.
        auto threads = threads_by_policy();
        require(threads[SCHED_BATCH].size() >= 2, "there are Gloo's, of SCHED_BATCH");
        require(!threads[SCHED_OTHER].contains("pt_gloo_runloop"), "all of Gloo's are SCHED_BATCH");
      },
      2);
}

TEST(Spawn, LeavesAPolicyThatTheUserChose) {
  const sched_param none{};
  ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
  spawn([](Job&) { require_equal(sched_getscheduler(0), SCHED_BATCH, "policy"); }, 2);
  sched_setscheduler(0, SCHED_OTHER, &none);
}

TEST(Spawn, NamesTheRankThatThrewAndWhat) {
  const SpawnError error = error_of(
      [](Job& job) {
        if (job.rank() == 2) throw std::out_of_range("no such sample");
        while (true) pause();  // the others are stopped
      },
      4);
  EXPECT_STREQ(error.what(), "rank 2 threw std::out_of_range: no such sample");
  EXPECT_EQ(error.rank(), 2);
  EXPECT_EQ(error.exit_code(), 1);
}

TEST(Spawn, NamesTheRankThatWasKilledNotThoseThatMissIt) {
  const SpawnError error = error_of(
      [](Job& job) {
        if (job.rank() == 1) raise(SIGKILL);
        job.barrier();
      },
      3);
  EXPECT_THAT(error.what(), HasSubstr("rank 1 was killed by signal 9"));
  EXPECT_EQ(error.rank(), 1);
  EXPECT_EQ(error.signal(), SIGKILL);
  EXPECT_EQ(error.exit_code(), -1);
}

TEST(Spawn, NamesTheRankThatThrewFirstNotThoseThatMissIt) {
  for (int round = 0; round < 5; ++round) {
    const SpawnError error = error_of(
        [](Job& job) {
          if (job.rank() == 1) throw std::runtime_error("the cause");
          job.barrier();
        },
        3);
    EXPECT_STREQ(error.what(), "rank 1 threw std::runtime_error: the cause");
  }
}

TEST(Spawn, ReportsAnExitCode) {
  const SpawnError error = error_of([](Job&) { _exit(7); }, 1);
  EXPECT_STREQ(error.what(), "rank 0 exited with code 7");
  EXPECT_EQ(error.exit_code(), 7);
}

TEST(Spawn, LeavesNoChildBehind) {
  error_of(
      [](Job& job) {
        if (job.rank() == 0) throw std::runtime_error("stop");
        while (true) pause();
      },
      3);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Spawn, ChildrenDieWithTheProcessThatSpawnedThem) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t parent = fork();
  if (parent == 0) {
    spawn(
        [&](Job&) {
          [[maybe_unused]] const auto written = write(write_end.get(), "x", 1);
          while (true) pause();
        },
        2);
    _exit(0);
  }
  write_end.reset();
  char byte;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(read(read_end.get(), &byte, 1), 1);
  kill(parent, SIGKILL);
  // The end of the pipe: the last process that held it is gone.
  pollfd entry{read_end.get(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 10'000), 1);
  EXPECT_EQ(read(read_end.get(), &byte, 1), 0);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
}

// torch's pool of threads, which the parent has then, is not yet the child's.
TEST(Spawn, ThreadsOfARankMayStartTogetherAfterTheParentHasSetTheirNumber) {
  at::set_num_threads(1);
  for (int i = 0; i < 10; ++i) {
    spawn(
        [](Job&) {
          constexpr int kThreads = 8;
          std::barrier together(kThreads);
          std::vector<std::jthread> threads;
          for (int thread = 0; thread < kThreads; ++thread)
            threads.emplace_back([&] {
              together.arrive_and_wait();
              (void)at::get_num_threads();
            });
        },
        2);
  }
}

TEST(Spawn, RefusesAProcessWithThreads) {
  std::jthread other([](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::this_thread::yield();
  });
  EXPECT_THROW(spawn([](Job&) {}, 1), std::logic_error);
}

TEST(Spawn, RefusesAWorldOfNone) {
  EXPECT_THROW(spawn([](Job&) {}, 0), std::invalid_argument);
}

}  // namespace
}  // namespace muster
