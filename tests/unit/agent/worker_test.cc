#include "agent/core/node/worker.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

using enum WorkerState;
using enum WorkerEvent;

constexpr WorkerState kStates[] = {kReady, kRunning, kStopping, kKilled, kEnded};
constexpr WorkerEvent kEvents[] = {kStarted, kNotStarted, kStopRequested, kKillRequested, kExited};

const WorkerTransition& cell(WorkerState state, WorkerEvent event) {
  return kWorkerTable.at(static_cast<std::size_t>(state)).at(static_cast<std::size_t>(event));
}

TEST(WorkerTable, DecidesEveryOrderOfTheLauncherInEveryState) {
  for (const WorkerState state : kStates) {
    EXPECT_TRUE(cell(state, kStopRequested).possible);
    EXPECT_TRUE(cell(state, kKillRequested).possible);
  }
}

TEST(WorkerTable, StartsAWorkerOnceAndEndsOnlyARunningOne) {
  for (const WorkerState state : kStates) {
    EXPECT_EQ(cell(state, kStarted).possible, state == kReady);
    EXPECT_EQ(cell(state, kNotStarted).possible, state == kReady);
    EXPECT_EQ(cell(state, kExited).possible, state != kReady && state != kEnded);
  }
}

TEST(WorkerTable, NeverLeavesTheEnd) {
  for (const WorkerEvent event : kEvents) {
    if (cell(kEnded, event).possible) EXPECT_EQ(cell(kEnded, event).next, kEnded);
  }
}

TEST(WorkerTable, SignalsOnlyProcessesThatAreNotReaped) {
  for (const WorkerEvent event : kEvents) {
    EXPECT_EQ(cell(kReady, event).effect, WorkerEffect::kNone);
    EXPECT_EQ(cell(kEnded, event).effect, WorkerEffect::kNone);
  }
}

TEST(Worker, SignalsOnceThenKillsOnce) {
  Worker worker;
  worker.started(42);
  EXPECT_EQ(worker.on(kStopRequested), WorkerEffect::kSignal);
  EXPECT_EQ(worker.on(kStopRequested), WorkerEffect::kNone);
  EXPECT_EQ(worker.on(kKillRequested), WorkerEffect::kKill);
  EXPECT_EQ(worker.on(kKillRequested), WorkerEffect::kNone);
  EXPECT_EQ(worker.on(kStopRequested), WorkerEffect::kNone);
  EXPECT_EQ(worker.on(kExited), WorkerEffect::kNone);
  EXPECT_TRUE(worker.ended());
  EXPECT_TRUE(worker.stop_requested());
}

TEST(Worker, WasNotStoppedWhenItEndsByItself) {
  Worker worker;
  worker.started(42);
  worker.on(kExited);
  worker.on(kStopRequested);
  EXPECT_FALSE(worker.stop_requested());
}

TEST(WorkerDeathTest, AnExitOfAWorkerThatNeverRanIsABug) {
  Worker worker;
  EXPECT_DEATH(worker.on(kExited), "event 4 in state 0");
}

}  // namespace
}  // namespace muster::agent
