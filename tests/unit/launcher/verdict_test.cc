#include "launcher/core/verdict/verdict.h"

#include <csignal>
#include <gtest/gtest.h>
#include <limits>
#include <set>

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kVerdictStart{1000s};

WorkerEnd end(int rank, int code, int signal = 0, Duration after = 0s, bool after_stop = false) {
  WorkerEnd result;
  result.rank = Rank(rank);
  result.node = NodeId(rank / 2);
  result.exit_code = code;
  result.signal = signal;
  result.at = kVerdictStart + after;
  result.after_stop = result.by_stop = after_stop;
  return result;
}

AttemptFacts facts(std::vector<WorkerEnd> ends) {
  AttemptFacts result;
  result.world_size = 4;
  result.ends = std::move(ends);
  return result;
}

struct ExitCase {
  int code;
  int signal;
  int expected;
};
void PrintTo(const ExitCase& exit, std::ostream* out) {
  *out << "code " << exit.code << " signal " << exit.signal;
}
class ExitCodes : public testing::TestWithParam<ExitCase> {};

TEST_P(ExitCodes, AreTheWorkersOwnUnlessReservedForTheLauncher) {
  EXPECT_EQ(exit_code_for(end(0, GetParam().code, GetParam().signal)), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Table, ExitCodes,
                         testing::Values(ExitCase{1, 0, 1}, ExitCase{2, 0, 2}, ExitCase{3, 0, 3},
                                         ExitCase{69, 0, 1}, ExitCase{75, 0, 1}, ExitCase{93, 0, 93},
                                         ExitCase{124, 0, 1}, ExitCase{125, 0, 1}, ExitCase{126, 0, 126},
                                         ExitCase{127, 0, 127}, ExitCase{253, 0, 1}, ExitCase{255, 0, 255},
                                         ExitCase{0, SIGKILL, 137}, ExitCase{0, SIGSEGV, 139},
                                         ExitCase{0, SIGABRT, 134},
                                         ExitCase{0, std::numeric_limits<int>::max(), 255}));

TEST(Verdict, NeedsEveryRankForSuccess) {
  EXPECT_EQ(judge(facts({end(0, 0), end(1, 0), end(2, 0), end(3, 0)})).exit_code, 0);
  EXPECT_EQ(judge(facts({end(0, 0), end(1, 0), end(2, 0)})).exit_code, kExitInternal);
  EXPECT_EQ(judge(facts({})).exit_code, kExitInternal);
  // The rank was told to stop and exited with 0. The program did not run to its end, but the failed rank
  // decides.
  EXPECT_EQ(judge(facts({end(0, 0), end(1, 4), end(2, 0), end(3, 0)})).exit_code, 4);
}

TEST(Verdict, CountsTheOthersThatFailedAsCollateral) {
  const Verdict verdict =
      judge(facts({end(2, 3), end(0, 1, 0, 5ms), end(1, 0, SIGTERM, 9ms, true), end(3, 0)}));
  EXPECT_EQ(verdict.culprit->rank, Rank(2));
  EXPECT_EQ(verdict.collateral_count, 2);
  EXPECT_EQ(verdict.origin, "worker");
  EXPECT_EQ(verdict.cause, "rank 2 (node1) exited with code 3");
}

TEST(Verdict, BlamesALostNodeForLaterFailures) {
  AttemptFacts lost = facts({end(0, 1, 0, 5ms)});
  lost.losses = {{NodeId(1), kVerdictStart, "its agent was killed by SIGKILL"}};
  EXPECT_EQ(judge(lost).exit_code, kExitNodesMissing);
  EXPECT_EQ(judge(lost).node, NodeId(1));
}

TEST(Verdict, IsOutOfMemoryIfTheKernelKilledANodesAgentForIt) {
  AttemptFacts lost = facts({});
  lost.losses = {{.node = NodeId(1),
                  .at = kVerdictStart,
                  .how = "its agent has ended: container ended with 137",
                  .had_joined = true,
                  .out_of_memory = true}};
  lost.started = kVerdictStart - 1s;
  const Verdict verdict = judge(lost);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kOutOfMemory);
  EXPECT_EQ(verdict.exit_code, kExitOutOfMemory);
  EXPECT_EQ(verdict.node, NodeId(1));
  EXPECT_EQ(verdict.cause, "node1 was lost: its agent has ended: container ended with 137");
  EXPECT_EQ(verdict.collateral_count, lost.world_size);
}

TEST(Verdict, TellsANodeThatWasLostBeforeTheStartFromOneThatDidNotStartOrRefused) {
  AttemptFacts before = facts({});
  before.started.reset();
  before.losses = {{NodeId(1), kVerdictStart, "its agent was killed by SIGKILL", /*had_joined=*/true}};
  EXPECT_TRUE(judge(before).lost_before_start);
  EXPECT_FALSE(judge(before).never_came);
  AttemptFacts never_came = before;
  never_came.losses[0].had_joined = false;
  EXPECT_FALSE(judge(never_came).lost_before_start);
  EXPECT_TRUE(judge(never_came).never_came);
  AttemptFacts refused = before;
  refused.refused_by_node = true;
  EXPECT_FALSE(judge(refused).lost_before_start);
  EXPECT_FALSE(judge(refused).never_came);
  AttemptFacts started = before;
  started.started = kVerdictStart - 1s;
  EXPECT_FALSE(judge(started).lost_before_start);
}

TEST(Verdict, NamesTheHostOnceIfNodesHaveHosts) {
  const NodeNames names({{NodeId(0), "h1"}, {NodeId(1), "h2"}});
  EXPECT_EQ(judge(facts({end(2, 3)}), names).cause, "rank 2 (node1, h2) exited with code 3");
  AttemptFacts lost = facts({});
  lost.losses = {{NodeId(1), kVerdictStart, "ssh ended with 255"}};
  EXPECT_EQ(judge(lost, names).cause, "node1 (h2) could not be started: ssh ended with 255");
  EXPECT_EQ(judge(lost).cause, "node1 was lost: ssh ended with 255")
      << "an agent on this machine runs at once";
  lost.losses.front().had_joined = true;
  EXPECT_EQ(judge(lost, names).cause, "node1 (h2) was lost: ssh ended with 255");
  lost.steps = {{Rank(0), 23}};
  EXPECT_EQ(judge(lost, names).cause_and_step(), "node1 (h2) was lost: ssh ended with 255, at step 23");
  AttemptFacts refused = facts({});
  refused.refusal = Refusal{.node = NodeId(0), .message = "train: not found"};
  EXPECT_EQ(judge(refused, names).cause, "node0 (h1): train: not found");
  AttemptFacts held = facts({end(0, 3)});
  held.unkillable = {{Rank(1), NodeId(0), 4711, "has not ended"}};
  EXPECT_EQ(judge(held, names).evidence.back(), "rank 1 (node0, h1, pid 4711) has not ended");
}

TEST(Verdict, BlamesALostNodeForFailuresElsewhereJustBeforeItsLossWasSeen) {
  AttemptFacts lost = facts({end(0, 1)});
  lost.losses = {{NodeId(1), kVerdictStart + 20ms, "its agent was killed by SIGKILL"}};
  EXPECT_EQ(judge(lost).node, NodeId(1)) << "its peers notice a dead node as fast as the launcher does";
  lost.losses[0].at = kVerdictStart + 2s;
  EXPECT_EQ(judge(lost).culprit->rank, Rank(0));
}

TEST(Verdict, BlamesAWorkerForTheLossOfItsOwnNode) {
  AttemptFacts lost = facts({end(2, 1)});
  lost.losses = {{NodeId(1), kVerdictStart + 20ms, "its agent was killed by SIGKILL"}};
  EXPECT_EQ(judge(lost).culprit->rank, Rank(2));
}

const char* const kPeerGone = "[pair.cc:547] Connection closed by peer [127.0.0.1]:4711";

WorkerEnd complaining(WorkerEnd worker) {
  worker.last_lines = {kPeerGone};
  return worker;
}

TEST(Verdict, DoesNotBlameARankThatReportsALostPeer) {
  EXPECT_EQ(judge(facts({complaining(end(0, 1)), end(3, 0, SIGKILL, 2ms)})).rank, Rank(3))
      << "a big process closes its connections before it has ended";
  EXPECT_EQ(judge(facts({complaining(end(0, 1)), end(3, 0, SIGKILL)})).rank, Rank(3)) << "nor in a tie";
  EXPECT_EQ(judge(facts({complaining(end(0, 1)), end(3, 0, SIGKILL, 10s)})).rank, Rank(0)) << "too late";
  EXPECT_EQ(judge(facts({complaining(end(2, 1)), complaining(end(1, 1, 0, 1ms))})).rank, Rank(2))
      << "the first one is chosen";
}

TEST(Verdict, BlamesAMissedRankThatLeftWithZero) {
  AttemptFacts left = facts({end(1, 0), complaining(end(0, 1, 0, 11ms)), end(3, 0, SIGTERM, 20ms, true)});
  left.steps = {{Rank(0), 121}, {Rank(1), 120}};
  Verdict verdict = judge(left);
  EXPECT_EQ(verdict.cause, "rank 1 exited with code 0 at step 120 while the others still trained");
  EXPECT_EQ(verdict.cause_and_step(), verdict.cause);
  EXPECT_EQ(verdict.rank, Rank(1));
  EXPECT_EQ(verdict.node, NodeId(0));
  EXPECT_EQ(verdict.exit_code, 1) << "0 would mean success";
  EXPECT_EQ(verdict.collateral, (std::vector{Rank(0), Rank(3)}));
  EXPECT_EQ(verdict.evidence,
            std::vector<std::string>{
                "rank 1 ran on node0; rank 0 (node0) missed it first, and exited with code 1"});
  EXPECT_TRUE(verdict.restart_may_help());
  left.steps.clear();
  EXPECT_EQ(judge(left).cause, "rank 1 exited with code 0 while the others still trained");
}

TEST(Verdict, DoesNotBlameARankThatEndedInItsOwnGroup) {
  AttemptFacts left = facts({end(2, 0, 0, 0ms), end(0, 0, 0, 5ms), complaining(end(3, 1, 0, 11ms))});
  EXPECT_EQ(judge(left).rank, Rank(0)) << "in one training it was the last to leave";
  for (const int rank : {0, 1}) left.groups.trains_in(Rank(rank), "a");
  for (const int rank : {2, 3}) left.groups.trains_in(Rank(rank), "b");
  EXPECT_EQ(judge(left).rank, Rank(2));
  left.ends.front().rank = Rank(1);
  EXPECT_EQ(judge(left).rank, Rank(3)) << "no rank of its group has left";
}

TEST(Verdict, SinglesOutNoRankIfTheOthersOfItsGroupAreUnknown) {
  AttemptFacts hung = facts({});
  hung.hangs = true;
  hung.hang.add({.rank = Rank(2),
                 .node = NodeId(1),
                 .hard = true,
                 .what = "hangs",
                 .section = "",
                 .step = 5,
                 .since = {}});
  hung.hang.add_stacks(Rank(0), NodeId(0), "multiply\nmain\n");
  EXPECT_EQ(judge(hung).rank, Rank(2));
  for (const int rank : {0, 1}) hung.groups.trains_in(Rank(rank), "a");
  for (const int rank : {2, 3}) hung.groups.trains_in(Rank(rank), "b");
  EXPECT_EQ(judge(hung).rank, std::nullopt) << "it may wait for rank 3";
  hung.groups.trains_in(Rank(3), "c");
  EXPECT_EQ(judge(hung).rank, Rank(2)) << "it trains alone";
  hung.hang.add_stacks(Rank(2), NodeId(1), "c10d::barrier\nmain\n");
  EXPECT_EQ(judge(hung).rank, std::nullopt) << "it waits for another group";
}

TEST(Verdict, ExplainsARankThatHangsInFinalize) {
  AttemptFacts hung = facts({});
  hung.hangs = true;
  hung.hang.add({.rank = Rank(1), .node = NodeId(0), .what = "hangs", .section = "", .step = 5, .since = {}});
  hung.hang.add_stacks(Rank(0), NodeId(0), "PMPI_Allreduce - /usr/lib/libmpi.so.40\nmain\n");
  hung.hang.add_stacks(Rank(1), NodeId(0), "PMPI_Barrier - /usr/lib/libmpi.so.40\nmain\n");
  EXPECT_FALSE(judge(hung).hint.contains("mpi4py"));
  hung.hang.add_stacks(Rank(1), NodeId(0), "PMPI_Finalize - /usr/lib/libmpi.so.40\nmain\n");
  EXPECT_TRUE(judge(hung).hint.contains("`-m mpi4py` before the script's name"));
}

TEST(Verdict, ExplainsARankThatHangsAfterAnException) {
  WorkerEnd stopped = end(1, 0, SIGTERM, 9s);
  stopped.last_lines = {"Traceback (most recent call last):", "ValueError: no"};
  AttemptFacts hung = facts({stopped});
  hung.hangs = true;
  hung.hang.add({.rank = Rank(1), .node = NodeId(0), .what = "hangs", .section = "", .step = 5, .since = {}});
  EXPECT_TRUE(judge(hung).hint.contains("`-m mpi4py` before the script's name"));
  hung.ends.front().last_lines = {"step 5"};
  EXPECT_FALSE(judge(hung).hint.contains("mpi4py"));
}

TEST(Verdict, BlamesALeftRankThatOthersWaitFor) {
  for (const char* text : {"c10::DistError: Timed out waiting 30000ms for recv operation to complete",
                           "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)",
                           "this rank waits in reduction 7 of gradients, "
                           "and rank 1 has come to the end of its data after 6"}) {
    WorkerEnd waiting = end(0, 1, 0, 5s);
    waiting.message = text;
    EXPECT_EQ(judge(facts({end(1, 0), waiting})).rank, Rank(1)) << text;
    EXPECT_EQ(judge(facts({waiting})).rank, Rank(0)) << text;
  }
}

TEST(Verdict, BlamesTheRankThatLeftBeforeItWasMissedAndNotLaterOnes) {
  EXPECT_EQ(
      judge(facts({end(3, 0), end(1, 0, 0, 1s), complaining(end(0, 1, 0, 2s)), end(2, 0, 0, 2100ms)})).rank,
      Rank(1));
}

TEST(Verdict, BlamesTheRankThatWasStillLeavingWhenItWasMissed) {
  EXPECT_EQ(judge(facts({complaining(end(0, 1)), end(1, 0, 0, 100ms)})).rank, Rank(1))
      << "it closes its connections before it has ended";
  EXPECT_EQ(judge(facts({complaining(end(0, 1)), end(1, 0, 0, 100ms, true)})).rank, Rank(0))
      << "it was told to stop";
}

TEST(Verdict, BlamesTheLastRankForAFailureAfterAllOthersSucceeded) {
  WorkerEnd late = end(0, 3, 0, 60s);
  late.message = "upload: Connection reset by peer";
  EXPECT_EQ(judge(facts({end(1, 0), end(2, 0), end(3, 0), late})).rank, Rank(0));
  EXPECT_EQ(judge(facts({end(1, 0), end(2, 0), end(3, 0), late})).exit_code, 3);
}

TEST(Verdict, DoesNotBlameARankThatLeftAndWasNotMissed) {
  EXPECT_EQ(judge(facts({end(1, 0), end(0, 3, 0, 11ms)})).rank, Rank(0));
  EXPECT_EQ(judge(facts({end(1, 0), complaining(end(0, 1, 0, 11ms)), end(2, 0, SIGKILL, 12ms)})).rank,
            Rank(2))
      << "another rank failed by itself";
  AttemptFacts lost = facts({end(1, 0), complaining(end(0, 1, 0, 11ms))});
  lost.losses = {{NodeId(1), kVerdictStart + 2s, "its agent was silent for 2 s"}};
  EXPECT_EQ(judge(lost).kind, Verdict::Kind::kNodeLost);
}

TEST(Verdict, FindsACauseThatEndedAfterTheStopOrder) {
  WorkerEnd killed = end(3, 0, SIGKILL, 2ms, true);
  killed.by_stop = false;  // the job had not sent KILL yet
  EXPECT_EQ(judge(facts({complaining(end(0, 1)), killed})).rank, Rank(3));
  EXPECT_EQ(judge(facts({complaining(end(0, 1)), end(3, 0, SIGTERM, 2ms, true)})).rank, Rank(0));
}

TEST(Verdict, BlamesALostNodeIfARankReportsALostPeerSecondsBefore) {
  AttemptFacts lost = facts({complaining(end(0, 1))});
  lost.losses = {{NodeId(1), kVerdictStart + 2s, "its agent was silent for 2 s"}};
  EXPECT_EQ(judge(lost).node, NodeId(1));
  EXPECT_EQ(judge(lost).kind, Verdict::Kind::kNodeLost);
}

TEST(Verdict, IsOutOfMemoryOnlyIfTheCounterSaysSo) {
  WorkerEnd killed = end(1, 0, SIGKILL);
  EXPECT_EQ(judge(facts({killed})).exit_code, 137);
  EXPECT_EQ(judge(facts({killed})).kind, Verdict::Kind::kSignal);
  killed.oom_kill_count = 1;
  killed.memory_limit_bytes = 512 << 20;
  killed.peak_memory_bytes = 500 << 20;
  const Verdict verdict = judge(facts({killed}));
  EXPECT_EQ(verdict.exit_code, kExitOutOfMemory);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kOutOfMemory);
  EXPECT_EQ(verdict.origin, "launcher");
  EXPECT_EQ(verdict.evidence.at(0),
            "the memory cgroup counted 1 OOM kill; its limit is 512 MiB; the worker used 500 MiB");
  WorkerEnd exited = end(1, 1);
  exited.oom_kill_count = 1;
  EXPECT_EQ(judge(facts({exited})).kind, Verdict::Kind::kExit) << "the kernel kills by SIGKILL";
}

TEST(Verdict, HasTheClassThatTheEvidenceShows) {
  WorkerEnd fault = end(1, 1);
  fault.gpu_fault = "XID 79: GPU has fallen off the bus (GPU 3)";
  EXPECT_EQ(judge(facts({fault})).kind, Verdict::Kind::kGpu);
  EXPECT_EQ(judge(facts({fault})).evidence.at(0), "NVML: XID 79: GPU has fallen off the bus (GPU 3)");
  WorkerEnd full = end(1, 1);
  full.message = "OSError: [Errno 28] No space left on device";
  EXPECT_EQ(judge(facts({full})).kind, Verdict::Kind::kDiskFull);
  EXPECT_EQ(judge(facts({full})).exit_code, 1);
  EXPECT_NE(judge(facts({full})).hint, "");
  WorkerEnd crash = end(1, 0, SIGSEGV);
  crash.core_dumped = true;
  EXPECT_EQ(judge(facts({crash})).kind, Verdict::Kind::kSignal);
  EXPECT_EQ(judge(facts({crash})).evidence.at(0), "it dumped core");
}

TEST(Verdict, NamesEveryClass) {
  std::set<std::string_view> names;
  for (int kind = 0; kind <= static_cast<int>(Verdict::Kind::kInternal); ++kind)
    names.insert(name_of(static_cast<Verdict::Kind>(kind)));
  EXPECT_EQ(names.size(), 14U);
  EXPECT_TRUE(names.contains("out_of_memory"));
  EXPECT_EQ(name_of(Verdict::Kind::kInternal), "internal");
}

TEST(WorkerEnd, IsByTheStopOnlyIfTheStopExplainsIt) {
  wire::WorkerExited exited;
  exited.after_stop = true;
  exited.signal = SIGTERM;
  EXPECT_TRUE(worker_end(NodeId(0), exited, false).by_stop);
  exited.signal = SIGKILL;
  EXPECT_FALSE(worker_end(NodeId(0), exited, false).by_stop);
  EXPECT_TRUE(worker_end(NodeId(0), exited, true).by_stop);
  exited.signal = SIGSEGV;
  EXPECT_FALSE(worker_end(NodeId(0), exited, true).by_stop);
  exited.signal = 0;
  exited.exit_code = 1;
  EXPECT_TRUE(worker_end(NodeId(0), exited, false).by_stop) << "it may catch TERM and exit as it likes";
}

TEST(Verdict, PrefersTheUsersStopToEveryFailure) {
  AttemptFacts stopped = facts({end(2, 3)});
  stopped.refusal = Refusal{};
  stopped.interrupted_by = StopWish{SIGTERM};
  EXPECT_EQ(judge(stopped).exit_code, 143);
  EXPECT_EQ(judge(stopped).origin, "user");
}

TEST(Verdict, TreatsWrongPathsAsWrongUsageAndOtherErrorsAsItsOwnFailure) {
  for (const ErrorCode code : {ErrorCode::kNotFound, ErrorCode::kPermission, ErrorCode::kCorrupt})
    EXPECT_EQ(exit_code_of_path_error(code), kExitUsage);
  EXPECT_EQ(exit_code_of_path_error(ErrorCode::kInternal), kExitInternal) << "no file descriptors, no space";
}

TEST(Verdict, RestartsOnlyIfARestartMayHelp) {
  EXPECT_TRUE(judge(facts({end(2, 3)})).restart_may_help());
  EXPECT_TRUE(judge(facts({})).restart_may_help());
  EXPECT_FALSE(judge(facts({end(0, 0), end(1, 0), end(2, 0), end(3, 0)})).restart_may_help());
  AttemptFacts refused = facts({end(2, 3)});
  refused.refusal = Refusal{Refusal::Kind::kFenced, std::nullopt, kExitInternal, "x"};
  EXPECT_FALSE(judge(refused).restart_may_help());
}

TEST(Verdict, ExitCodeTwoAtOnceBeforeAStepIsWrongUsageAndNotRetried) {
  const auto ends_with = [](int code, Duration after) {
    AttemptFacts ended = facts({end(2, code, 0, after)});
    ended.started = kVerdictStart;
    return ended;
  };
  EXPECT_FALSE(judge(ends_with(kExitUsage, 1s)).restart_may_help());
  EXPECT_EQ(judge(ends_with(kExitUsage, 1s)).exit_code, kExitUsage);
  EXPECT_EQ(judge(ends_with(kExitUsage, 1s)).final_because,
            "exit code 2 within 10 s and before a step means wrong usage");
  EXPECT_TRUE(judge(ends_with(kExitUsage, 10s)).restart_may_help());
  EXPECT_TRUE(judge(ends_with(3, 1s)).restart_may_help());
  AttemptFacts trained = ends_with(kExitUsage, 1s);
  trained.steps[Rank(0)] = 0;
  EXPECT_TRUE(judge(trained).restart_may_help());
}

TEST(Verdict, ARankThatWasKilledAfterItsLastLineIsNotRetriedIfAllHadRunTheirs) {
  const auto at_exit = [](int rank, int signal, Duration after = 0s) {
    WorkerEnd killed = end(rank, 0, signal, after);
    killed.ran_last_line = true;
    return killed;
  };
  const Verdict verdict = judge(facts({end(0, 0), at_exit(1, SIGABRT, 1s), at_exit(2, SIGSEGV), end(3, 0)}));
  EXPECT_FALSE(verdict.restart_may_help());
  EXPECT_EQ(verdict.final_because, "all ranks had run their last line");
  EXPECT_EQ(verdict.exit_code, 128 + SIGSEGV);
  EXPECT_EQ(verdict.cause, "rank 2 (node1) had run its last line when it was killed by SIGSEGV");
  EXPECT_THAT(verdict.hint, testing::HasSubstr("a library crashed while Python ended"));
  const auto hint_of = [](WorkerEnd killed) { return judge(facts({std::move(killed)})).hint; };
  EXPECT_THAT(hint_of(at_exit(0, SIGABRT)), testing::HasSubstr("torch.distributed.destroy_process_group()"));
  WorkerEnd of_torch = at_exit(0, SIGSEGV);
  of_torch.last_lines = {"  File \"/site-packages/torch/cuda/__init__.py\", line 7"};
  EXPECT_THAT(hint_of(of_torch), testing::HasSubstr("torch.distributed.destroy_process_group()"));
  EXPECT_TRUE(judge(facts({end(0, 0), at_exit(1, SIGABRT), at_exit(2, SIGSEGV)})).restart_may_help());
  EXPECT_TRUE(judge(facts({end(0, 0), end(1, 0, SIGABRT), end(2, 0), end(3, 0)})).restart_may_help());
  const Verdict other = judge(facts({at_exit(0, SIGABRT), end(1, 3, 0, 1s), end(2, 0), end(3, 0)}));
  EXPECT_EQ(other.rank, Rank(1)) << "it failed in its work";
  EXPECT_TRUE(other.restart_may_help());
  AttemptFacts noticed = facts({at_exit(0, SIGABRT), end(1, kExitPreempted), end(2, 0), end(3, 0)});
  noticed.notice_given = noticed.committed_on_notice = true;
  EXPECT_EQ(judge(noticed).kind, Verdict::Kind::kPreempted);
}

TEST(Verdict, AMistakeInTheScriptIsNotRetriedInTheFirstAttempt) {
  const auto raises = [](const std::string& exception, Duration after = 1s, int code = 1) {
    AttemptFacts ended = facts({end(2, code, 0, after)});
    ended.ends.front().exception = exception;
    ended.started = kVerdictStart;
    ended.first = true;
    return ended;
  };
  for (const char* mistake :
       {"SyntaxError: invalid syntax (train.py:3)", "IndentationError: unexpected indent (train.py:3)",
        "ImportError: no x", "ModuleNotFoundError: No module named 'x' (train.py:1)", "NameError: no x",
        "UnboundLocalError: no x", "AttributeError: no x", "TypeError", "TypeError (train.py:6)"})
    EXPECT_FALSE(judge(raises(mistake)).restart_may_help()) << mistake;
  EXPECT_EQ(judge(raises("NameError: no x (train.py:6)")).final_because,
            "NameError in the first attempt, within 300 s and before a step, means a mistake in the script");
  for (const char* other : {"", "RuntimeError: TypeError", "ValueError: no", "mine.TypeError: no",
                            "OSError: no x", "TypeErrors: no"})
    EXPECT_TRUE(judge(raises(other)).restart_may_help()) << other;
  EXPECT_TRUE(judge(raises("TypeError: no", 300s)).restart_may_help());
  EXPECT_TRUE(judge(raises("TypeError: no", 1s, 3)).restart_may_help()) << "the program chose its own code";
  AttemptFacts later = raises("TypeError: no");
  later.first = false;
  EXPECT_TRUE(judge(later).restart_may_help());
  AttemptFacts shrunk = raises("TypeError: no");
  shrunk.shrunk = true;
  EXPECT_TRUE(judge(shrunk).restart_may_help()) << "more ranks may join";
  AttemptFacts trained = raises("TypeError: no");
  trained.steps[Rank(0)] = 0;
  EXPECT_TRUE(judge(trained).restart_may_help());
}

// The others were on a node that fell silent.
TEST(Verdict, BlamesNoRankForAHangOfWhichOnlyOneRankReported) {
  AttemptFacts stalled = facts({});
  stalled.started = kVerdictStart;
  stalled.hang.add(
      {.rank = Rank(1), .node = NodeId(1), .what = "does not get on", .section = "", .since = kVerdictStart});
  stalled.hangs = true;
  EXPECT_EQ(judge(stalled).rank, std::nullopt);
  EXPECT_EQ(judge(stalled).cause,
            "no rank can be singled out: nothing is known about the others; rank 1 (node1) does not get on");
  stalled.hang.add_stacks(Rank(0), NodeId(0), "main\n");
  EXPECT_EQ(judge(stalled).rank, Rank(1));
}

TEST(Verdict, DoesNotRetryAnErrorThatTheFileCallsFinal) {
  wire::WorkerExited exited;
  exited.exit_code = 1;
  exited.error_file = R"({"message": {"message": "ValueError: no"}, "final": true})";
  const Verdict verdict = judge(facts({worker_end(NodeId(0), exited, false)}));
  EXPECT_FALSE(verdict.restart_may_help());
  EXPECT_EQ(verdict.final_because, "the program reported a permanent error");
  EXPECT_EQ(verdict.exit_code, 1);
  AttemptFacts shrunk = facts({worker_end(NodeId(0), exited, false)});
  shrunk.started = kVerdictStart;
  EXPECT_TRUE(judge(shrunk).at_start);
  shrunk.shrunk = true;
  EXPECT_TRUE(judge(shrunk).restart_may_help()) << "it may fit more ranks";
  EXPECT_FALSE(judge(shrunk).at_start);
  for (const char* text : {R"({"message": "ValueError: no", "final": false})", R"({"message": "no"})",
                           R"({"message": "no", "final": "yes"})"}) {
    exited.error_file = text;
    EXPECT_TRUE(judge(facts({worker_end(NodeId(0), exited, false)})).restart_may_help()) << text;
  }
}

TEST(Verdict, BlamesTheRankThatPrintsASharedError) {
  wire::WorkerExited exited;
  exited.rank = Rank(1);
  exited.exit_code = 1;
  exited.error_file = R"({"message": "none can be used", "told": true})";
  const WorkerEnd told = worker_end(NodeId(0), exited, false);
  WorkerEnd teller = end(0, 1, 0, 1s);
  teller.at = told.at + 5ms;
  EXPECT_EQ(judge(facts({told, teller})).rank, Rank(0));
  EXPECT_EQ(judge(facts({told})).rank, Rank(1));
}

TEST(Verdict, TellsHowLongTheAttemptLived) {
  AttemptFacts ended = facts({end(2, 3, 0, 7s)});
  ended.started = kVerdictStart;
  EXPECT_EQ(judge(ended).lived, 7s);
  ended.losses = {{NodeId(0), kVerdictStart - 1s, "died"}};
  EXPECT_EQ(judge(ended).lived, 0s) << "the node was lost before";
}

TEST(ErrorFile, ReturnsItsMessageInBothForms) {
  EXPECT_EQ(
      read_error_file(R"({"message":{"message":"ValueError: no","extraInfo":{"timestamp":"1"}}})").message,
      "ValueError: no");
  EXPECT_EQ(read_error_file(R"({"message":"plain"})").message, "plain");
}

TEST(ErrorFile, ReturnsItsCauseIfItIsAText) {
  EXPECT_EQ(read_error_file(R"({"message":"batch 1: no","cause":"no"})").cause, "no");
  EXPECT_EQ(read_error_file(R"({"message":"batch 1: no","cause":7})").cause, "");
}

TEST(ErrorFile, IsEmptyIfMalformed) {
  for (const char* text : {"", "not json", "[]", "7", R"({"other":1})",
                           R"({"message":{"message":{"message":"deep"}}})", "{\"message\":"}) {
    EXPECT_EQ(read_error_file(text).message, "") << text;
  }
  EXPECT_EQ(read_error_file(std::string(60'000, '[')).message, "");
}

TEST(WorkerEnd, NamesTheExceptionOfAScriptThatOnlyPrintedItsTraceback) {
  wire::WorkerExited exited;
  exited.rank = Rank(3);
  exited.exit_code = 1;
  exited.last_lines = {
      "Traceback (most recent call last):", R"(  File "/home/me/train.py", line 6, in <module>)",
      "    raise RuntimeError(\"bad sample 17\")", "RuntimeError: bad sample 17"};
  const WorkerEnd end = worker_end(NodeId(1), exited, false);
  EXPECT_EQ(end.exception, "RuntimeError: bad sample 17 (train.py:6)");
  EXPECT_EQ(judge(facts({end})).cause, "rank 3 (node1) failed with RuntimeError: bad sample 17 (train.py:6)");
  exited.exit_code = 3;
  EXPECT_EQ(end_text(worker_end(NodeId(1), exited, false)),
            "exited with code 3 after RuntimeError: bad sample 17 (train.py:6)");
}

TEST(WorkerEnd, PrefersTheExceptionOfTheErrorFile) {
  wire::WorkerExited exited;
  exited.exit_code = 1;
  exited.last_lines = {"Traceback (most recent call last):", R"(  File "a.py", line 1, in f)",
                       "OSError: other"};
  exited.error_file = R"({"message":"c10::Error: first\nsecond"})";
  EXPECT_EQ(worker_end(NodeId(0), exited, false).exception, "c10::Error: first");
  exited.error_file =
      R"({"message":{"message":"ValueError: no","extraInfo":{"py_callstack":
          "Traceback (most recent call last):\n  File \"/x/t.py\", line 9, in f\n    g()\nValueError: no\n"}}})";
  EXPECT_EQ(worker_end(NodeId(0), exited, false).exception, "ValueError: no (t.py:9)");
}

TEST(WorkerEnd, NamesNoExceptionForASignalFromOutside) {
  wire::WorkerExited exited;
  exited.last_lines = {"terminate called after throwing an instance of 'std::runtime_error'",
                       "  what():  no"};
  exited.signal = SIGKILL;
  EXPECT_EQ(end_text(worker_end(NodeId(0), exited, false)), "was killed by SIGKILL");
  exited.signal = SIGABRT;
  EXPECT_EQ(end_text(worker_end(NodeId(0), exited, false)),
            "was killed by SIGABRT after std::runtime_error: no");
}

TEST(WorkerEnd, ShowsTwentyLinesAndSearchesThemAllForTheException) {
  wire::WorkerExited exited;
  exited.signal = SIGABRT;
  exited.last_lines = {"terminate called after throwing an instance of 'c10::Error'", "  what():  no GPU"};
  for (int i = 0; i < 40; ++i) exited.last_lines.push_back("frame #" + std::to_string(i));
  const WorkerEnd end = worker_end(NodeId(0), exited, false);
  EXPECT_EQ(end.exception, "c10::Error: no GPU");
  ASSERT_EQ(end.last_lines.size(), 20U);
  EXPECT_EQ(end.last_lines.back(), "frame #39");
}

}  // namespace
}  // namespace muster::launcher
