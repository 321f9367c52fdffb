#include "launcher/core/verdict/main_stack.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A dump as the runtime writes it.
std::string waits(int thread) {
  return "thread " + std::to_string(thread) +
         " (train), state S, in futex_do_wait\n"
         "    libc.so.6+0x85f14\n"
         "    pthread_cond_wait  (libc.so.6+0x885d8)\n"
         "    std::condition_variable::wait(std::unique_lock<std::mutex>&)  (libstdc++.so.6+0xa741d)\n"
         "    c10d::Work::wait(std::chrono::duration<long>)  (libtorch_cpu.so+0x6ab1a9b)\n"
         "    main  (train+0x42c56)\n"
         "    __libc_start_main  (libc.so.6+0x27305)\n"
         "    _start  (train+0x428a1)\n"
         "thread 99 (pt_gloo_runloop), state S, in do_epoll_wait\n"
         "    epoll_wait  (libc.so.6+0x108f36)\n"
         "    gloo::transport::tcp::Loop::run()  (libtorch_cpu.so+0x9027b6d)\n";
}
const std::string kLoads =
    "thread 7 (train), state S, in hrtimer_nanosleep\n"
    "    nanosleep  (libc.so.6+0xd3e53)\n"
    "    load_batch()  (train+0x429ab)\n"
    "    main  (train+0x42dee)\n"
    "    __libc_start_main  (libc.so.6+0x27305)\n"
    "    _start  (train+0x428a1)\n";
// A dump as the agent writes it.
const std::string kKernels =
    "The kernel's view (it did not answer):\n"
    "thread 22676 (sleep): sleeps, system call 230 (clock_nanosleep), in hrtimer_nanosleep\n"
    "    [<0>] hrtimer_nanosleep+0x74/0xf0\n"
    "    [<0>] do_syscall_64+0x71/0x280\n";
const std::string kPythons =
    "Thread 0x00007f5d (most recent call first):\n"
    "  File \"report.py\", line 9 in obey\n"
    "\n"
    "Thread 0x00007f5e (most recent call first):\n"
    "  File \"train.py\", line 40 in all_reduce\n"
    "  File \"train.py\", line 50 in <module>\n";

const std::string kSpys =
    "Process 9: python3 -u train.py\n"
    "Python v3.11.2 (/usr/bin/python3.11)\n"
    "\n"
    "Thread 11 (idle): \"loader\"\n"
    "    wait (threading.py:327)\n"
    "Thread 9 (idle): \"MainThread\"\n"
    "    all_reduce (torch/distributed/distributed_c10d.py:2810)\n"
    "    <module> (train.py:50)\n"
    "Thread 12 (active): \"other\"\n"
    "    run (threading.py:9)\n";

TEST(MainStack, IsTheOneThatPySpyCallsMain) {
  const MainStack stack = main_stack_of(kSpys);
  EXPECT_THAT(stack.frames, ElementsAre("all_reduce (torch/distributed/distributed_c10d.py:2810)",
                                        "<module> (train.py:50)"));
  EXPECT_TRUE(waits_for_others(stack));
}

const std::string kEuStacks =
    "PID 31 - process\n"
    "TID 31:\n"
    "#0  0x00007f9eef5c0a47 sched_yield - /usr/lib/x86_64-linux-gnu/libc.so.6\n"
    "#1  0x00007f9eef3120c5 opal_progress - /usr/lib/x86_64-linux-gnu/libopen-pal.so.40.30.2\n"
    "#2  0x00007f9eef6ad3a5 PMPI_Barrier - /usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4\n"
    "#3  0x0000560d5e3f42f1 main - /home/user/solver\n"
    "#4  0x0000560d5e3f4111 - /home/user/solver\n"
    "#5  0x0000560d5e3f4112 _start\n"
    "TID 33:\n"
    "#0  0x00007f9eef5c0a47 epoll_wait - /usr/lib/x86_64-linux-gnu/libc.so.6\n";

TEST(MainStack, IsTheFirstOneThatEuStackShows) {
  const MainStack stack = main_stack_of(kEuStacks);
  EXPECT_THAT(stack.frames,
              ElementsAre("sched_yield  (libc.so.6)", "opal_progress  (libopen-pal.so.40.30.2)",
                          "PMPI_Barrier  (libmpi.so.40.30.4)", "main  (solver)", "?  (solver)", "_start"));
  EXPECT_TRUE(waits_for_others(stack));
  EXPECT_THAT(shown_lines(stack, 3), ElementsAre("PMPI_Barrier", "main"));
}

std::vector<Rank> unlike(const std::vector<std::string>& dumps) {
  std::map<Rank, MainStack> stacks;
  for (std::size_t i = 0; i < dumps.size(); ++i)
    stacks[Rank(static_cast<std::int32_t>(i))] = main_stack_of(dumps[i]);
  return unlike_most(stacks);
}

TEST(MainStack, IsTheFirstThreadsWithoutSystemFrames) {
  EXPECT_THAT(shown_lines(main_stack_of(kLoads), 9), ElementsAre("load_batch()", "main"));
  EXPECT_THAT(shown_lines(main_stack_of(waits(7)), 1),
              ElementsAre("c10d::Work::wait(std::chrono::duration<long>)"));
}

TEST(MainStack, BeginsWithTheRanksActivityIfReported) {
  const MainStack stack = main_stack_of("at stage 1: forward of microbatch 3\n" + kLoads);
  EXPECT_THAT(shown_lines(stack, 1), ElementsAre("stage 1: forward of microbatch 3", "load_batch()"));
  EXPECT_EQ(stack.frames, main_stack_of(kLoads).frames);
  const MainStack other = main_stack_of("at stage 0: waits for the gradient of microbatch 0\n" + waits(1));
  EXPECT_THAT(unlike_most({{Rank(0), other}, {Rank(1), stack}, {Rank(2), other}}), IsEmpty());
}

TEST(MainStack, NamesRanksThatHaveNotEnteredTheNewestCollective) {
  const auto in_collective = [](std::int64_t number, std::int64_t ended) {
    return main_stack_of(fmt::format(
        "newest collective in group 'left': #3 a, finished up to #3': #7 barrier, finished up to #7\n"
        "newest collective in group 'world': #{} all_reduce of Float [4], finished up to #{}\n{}",
        number, ended, waits(1)));
  };
  const std::map<Rank, MainStack> stacks{{Rank(0), in_collective(41, 40)}, {Rank(1), in_collective(40, 40)}};
  EXPECT_EQ(stacks.at(Rank(0)).frames, main_stack_of(waits(1)).frames);
  EXPECT_EQ(stacks.at(Rank(0)).collectives.at("left': #3 a, finished up to #3").number, 7);
  EXPECT_THAT(missing_in_collectives(stacks),
              ElementsAre("rank 1 has not entered collective 41 of group 'world': all_reduce of Float [4]"));
  EXPECT_THAT(
      main_stack_of(
          "newest collective in group 'a': #x b, finished up to #1\nnewest collective in group 'a': #3\n")
          .collectives,
      IsEmpty());
}

TEST(MainStack, IsTheStateIfTheKernelKnowsNoFrames) {
  EXPECT_THAT(shown_lines(main_stack_of(kKernels), 9),
              ElementsAre("sleeps, system call 230 (clock_nanosleep), in hrtimer_nanosleep"));
}

TEST(MainStack, IsTheLastOfPythons) {
  EXPECT_THAT(shown_lines(main_stack_of(kPythons), 1),
              ElementsAre("File \"train.py\", line 40 in all_reduce"));
}

TEST(MainStack, MayBeAnyLinesOrNone) {
  EXPECT_THAT(shown_lines(main_stack_of("all_reduce\n\nmain\n"), 9), ElementsAre("all_reduce", "main"));
  EXPECT_THAT(shown_lines(main_stack_of(""), 9), IsEmpty());
  EXPECT_THAT(shown_lines(main_stack_of("thread 1"), 9), ElementsAre("thread 1"));
}

TEST(MainStack, IsUnlikeMostIfItDiffersFromTheOthers) {
  EXPECT_THAT(unlike({waits(1), waits(2), kLoads, waits(4)}), ElementsAre(Rank(2)));
  EXPECT_THAT(unlike({kKernels, waits(2), waits(3)}), ElementsAre(Rank(0))) << "it did not answer";
  EXPECT_THAT(unlike({kPythons, kPythons,
                      "File \"train.py\", line 3 in load\nFile \"train.py\", line 50 in <module>"}),
              ElementsAre(Rank(2)));
}

TEST(MainStack, IsNotUnlikeOthersWithoutAMajority) {
  EXPECT_THAT(unlike({waits(1), kLoads}), IsEmpty());
  EXPECT_THAT(unlike({waits(1), waits(2), kLoads, kLoads}), IsEmpty());
  EXPECT_THAT(unlike({waits(1), waits(2), waits(3)}), IsEmpty());
  EXPECT_THAT(unlike({"", "", ""}), IsEmpty());
  EXPECT_THAT(unlike({}), IsEmpty());
}

}  // namespace
}  // namespace muster::launcher
