// A job whose agents keep its logs elsewhere.
#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

TEST_F(JobTest, WaitsForAgentsWhileTheirLogsArrive) {
  run();
  said(1, Attempt(), wire::LogsElsewhere{"/logs/job"});
  EXPECT_EQ(told(), "") << "nothing is wrong";
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  end_agent(0, "left");
  happen(LeftoversSeen{});
  for (int i = 0; i < 10; ++i) {
    pass(5s);
    EXPECT_THAT(decided<KillAgent>(), testing::IsEmpty());
    said(1, Attempt(1), wire::LogPiece{.rank = Rank(2), .text = {}});
  }
  pass(20s);
  EXPECT_EQ(decided<KillAgent>().size(), 1U);
}

}  // namespace
}  // namespace muster::launcher
