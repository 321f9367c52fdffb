// The real launcher and agents, with workers that report the time of their steps.
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::HasSubstr;

// Steps in the words of docs/protocol.md; those of rank 3 take 130 ms until the file "well" appears.
constexpr const char* kWorker = R"(
import itertools, json, os, socket, sys, time
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
agent.connect(os.environ["MUSTER_SOCKET"])
rank = int(os.environ["RANK"])
for step in itertools.count(1):
    slow = rank == 3 and not os.path.exists(sys.argv[1] + "/well")
    agent.send(json.dumps({"v": 1, "type": "step", "rank": rank, "pid": os.getpid(), "step": step, "busy_ms": 130.2 if slow else 100 + rank,
                           "attempt": int(os.environ["MUSTER_ATTEMPT"])}).encode())
    if os.path.exists(sys.argv[1] + "/end"):
        break
    time.sleep(0.05)
)";

TEST(LaunchStragglers, AScriptsSlowRankIsNamedOnceAndThenThatItIsNoLongerSlow) {
  ScratchDirectory signs;
  LaunchRun run({"--nodes", "2", "--gpus-per-node", "2", "--", "python3", "-c", kWorker, signs.path()});
  const auto said = [&](const char* text) {
    return eventually([&] { return run.err().find(text) != std::string::npos; }, std::chrono::seconds(40));
  };
  ASSERT_TRUE(said("rank 3 (node1) is slower than the others: 130 ms a step against 102 ms")) << run.err();
  std::ofstream(signs / "well");
  ASSERT_TRUE(said("rank 3 (node1) is no longer slower than the others: 103 ms a step against 102 ms"))
      << run.err();
  std::ofstream(signs / "end");
  EXPECT_EQ(run.exit_code(), 0) << run.err();

  const std::string err = run.err();
  EXPECT_EQ(err.find("is slower"), err.rfind("is slower")) << err;
  const auto events = read_file(run.job_directory() + "/events.jsonl", 1 << 20).value_or("");
  EXPECT_THAT(events, HasSubstr(R"("event":"straggler","attempt":1,"rank":3,"node":1,"text":"is slower)"));
  EXPECT_THAT(events, HasSubstr(R"("event":"straggler_over")"));
  const auto stragglers = run.report()["attempts"][0]["stragglers"];
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0]["rank"], 3);
  EXPECT_NEAR(stragglers[0]["busy_ms"], 130.2, 0.01);
  EXPECT_GT(stragglers[0]["until_step"], stragglers[0]["since_step"]);
}

}  // namespace
}  // namespace muster
