#include "agent/core/mpi/pmi_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/core/mpi/mpi_fault.h"

namespace muster::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using wire::MpiVerb;

wire::PrepareAttempt plan_of(std::vector<std::int32_t> rank_counts) {
  wire::PrepareAttempt plan;
  plan.node_count = static_cast<std::int32_t>(rank_counts.size());
  plan.local_world_size = rank_counts.front();
  for (const std::int32_t count : rank_counts) plan.world_size += count;
  plan.rank_counts = std::move(rank_counts);
  return plan;
}

std::vector<std::string> replies(const PmiRanks::Effects& effects) {
  std::vector<std::string> lines;
  for (const auto& [rank, line] : effects.replies) lines.push_back(fmt::format("{} {}", rank, line));
  return lines;
}

const LocalRank kFirst(0);
const LocalRank kSecond(1);

TEST(PmiRanks, ReportsTheWorld) {
  PmiRanks ranks(plan_of({2, 2, 1}), "muster-j-0");
  EXPECT_THAT(replies(ranks.on_line(kSecond, "cmd=init pmi_version=1 pmi_subversion=1")),
              ElementsAre("1 cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"));
  EXPECT_THAT(replies(ranks.on_line(kFirst, "cmd=get_universe_size")),
              ElementsAre("0 cmd=universe_size size=5"));
  EXPECT_THAT(replies(ranks.on_line(kFirst, "cmd=get kvsname=muster key=PMI_process_mapping")),
              ElementsAre("0 cmd=get_result rc=0 msg=success value=(vector,(0,2,2),(2,1,1))"));
  EXPECT_THAT(replies(ranks.on_line(kFirst, "cmd=get kvsname=muster key=none")),
              ElementsAre(HasSubstr("rc=-1")));
  EXPECT_THAT(replies(ranks.on_line(kFirst, "cmd=dance")), ElementsAre(HasSubstr("rc=-1")));
  EXPECT_THAT(replies(ranks.on_line(kFirst, "")), ElementsAre(HasSubstr("rc=-1")));
}

// MPICH names its shared memory after this name.
TEST(PmiRanks, TellTheNameOfTheirWorld) {
  PmiRanks ranks(plan_of({1}), "muster-job-3");
  EXPECT_THAT(replies(ranks.on_line(kFirst, "cmd=get_my_kvsname")),
              ElementsAre("0 cmd=my_kvsname kvsname=muster-job-3"));
}

TEST(PmiRanks, OnOneNodeNeedNoOtherNode) {
  PmiRanks ranks(plan_of({2}), "muster-j-0");
  ranks.on_line(kFirst, "cmd=put kvsname=muster key=card value=a=b c");
  EXPECT_THAT(ranks.on_line(kFirst, "cmd=barrier_in").replies, IsEmpty());
  const auto last = ranks.on_line(kSecond, "cmd=barrier_in");
  EXPECT_THAT(replies(last), ElementsAre("0 cmd=barrier_out", "1 cmd=barrier_out"));
  EXPECT_THAT(last.asked, IsEmpty());
  EXPECT_THAT(replies(ranks.on_line(kSecond, "cmd=get kvsname=muster key=card")),
              ElementsAre("1 cmd=get_result rc=0 msg=success value=a=b c"));
}

TEST(PmiRanks, OnSeveralNodesSeeEachOthersValuesAfterABarrier) {
  PmiRanks ranks(plan_of({2, 1}), "muster-j-0");
  ranks.on_line(kFirst, "cmd=put kvsname=muster key=a value=1");
  ranks.on_line(kFirst, "cmd=barrier_in");
  const auto last = ranks.on_line(kSecond, "cmd=barrier_in");
  EXPECT_THAT(last.replies, IsEmpty());
  ASSERT_EQ(last.asked.size(), 1U);
  EXPECT_EQ(last.asked[0].count, 2);
  EXPECT_EQ(last.asked[0].text.view(), "4.\na=1\n");
  EXPECT_THAT(ranks.on_told({.number = 77, .ok = true}).replies, IsEmpty()) << "no rank has asked that";
  const wire::MpiTold told{
      .number = last.asked[0].number, .ok = true, .text = wire::Bytes("4.\na=1\n6.\nb=2=3\n")};
  EXPECT_THAT(replies(ranks.on_told(told)), ElementsAre("0 cmd=barrier_out", "1 cmd=barrier_out"));
  EXPECT_THAT(ranks.on_told(told).replies, IsEmpty()) << "it was answered";
  EXPECT_THAT(replies(ranks.on_line(kSecond, "cmd=get kvsname=muster key=b")),
              ElementsAre("1 cmd=get_result rc=0 msg=success value=2=3"));
  ranks.on_line(kFirst, "cmd=barrier_in");
  const auto next = ranks.on_line(kSecond, "cmd=barrier_in");
  EXPECT_EQ(next.asked.at(0).text.view(), "0.\n") << "the others have it";
  EXPECT_NE(next.asked[0].key, last.asked[0].key);
}

// Two nodes with a rank each; the test answers their fences as a launcher does.
class PmiNodes {
 public:
  // Runs until both have passed their barrier; returns how many fences that took.
  int pass_barrier() {
    int fences = 0;
    auto first = nodes_[0].on_line(kFirst, "cmd=barrier_in");
    auto second = nodes_[1].on_line(kFirst, "cmd=barrier_in");
    for (; first.replies.empty() && second.replies.empty(); ++fences) {
      EXPECT_EQ(first.asked.at(0).key, second.asked.at(0).key);
      const std::string all =
          std::string(first.asked[0].text.view()) + std::string(second.asked[0].text.view());
      EXPECT_LE(all.size(), wire::kMostMpiBytes);
      const auto told = [&](const PmiRanks::Effects& asked) {
        return wire::MpiTold{.number = asked.asked[0].number, .ok = true, .text = wire::Bytes(all)};
      };
      first = nodes_[0].on_told(told(first));
      second = nodes_[1].on_told(told(second));
    }
    EXPECT_THAT(replies(first), ElementsAre("0 cmd=barrier_out"));
    EXPECT_THAT(replies(second), ElementsAre("0 cmd=barrier_out"));
    return fences;
  }
  void put(int node, int key, const std::string& value) {
    nodes_[node].on_line(kFirst, fmt::format("cmd=put kvsname=muster key=k{} value={}", key, value));
  }
  std::string get(int node, int key) {
    return replies(nodes_[node].on_line(kFirst, fmt::format("cmd=get kvsname=muster key=k{}", key))).at(0);
  }

 private:
  PmiRanks nodes_[2] = {PmiRanks(plan_of({1, 1}), "w"), PmiRanks(plan_of({1, 1}), "w")};
};

TEST(PmiRanks, ExchangeInSeveralMessagesWhatDoesNotFitIntoOne) {
  PmiNodes nodes;
  const std::string value(1000, 'v');
  const int count = static_cast<int>(wire::kMostMpiBytes / value.size()) + 100;  // per node
  for (int key = 0; key < count; ++key) nodes.put(1, key, fmt::format("{}{}", value, key));
  nodes.put(0, count, "of the other");
  EXPECT_EQ(nodes.pass_barrier(), 3) << "one node has half of a message";
  for (int key = 0; key < count; ++key)
    ASSERT_EQ(nodes.get(0, key), fmt::format("0 cmd=get_result rc=0 msg=success value={}{}", value, key));
  EXPECT_THAT(nodes.get(1, count), HasSubstr("value=of the other"));
  nodes.put(0, 0, "new");
  EXPECT_EQ(nodes.pass_barrier(), 1);
  EXPECT_THAT(nodes.get(1, 0), HasSubstr("value=new"));
}

TEST(PmiRanks, RefuseToPutMoreThanTheLimit) {
  PmiRanks ranks(plan_of({1}), "muster-j-0");
  const std::string half =
      "cmd=put kvsname=muster key=k value=" + std::string(PmiRanks::kMostPutBytes / 2, 'v');
  EXPECT_THAT(ranks.on_line(kFirst, half).replies.at(0).line, HasSubstr("rc=0"));
  EXPECT_THAT(ranks.on_line(kFirst, half).replies.at(0).line, HasSubstr("rc=-1"));
  EXPECT_THAT(ranks.on_line(kFirst, "cmd=get kvsname=muster key=k").replies.at(0).line, HasSubstr("rc=0"));
}

TEST(PmiRanks, ReportAnInvalidAnswer) {
  for (const char* const text : {"", "4.", "x.\n", "9.\na=1\n0.\n", "0.\n", "0.\n0.\n0.\n"}) {
    PmiRanks ranks(plan_of({1, 1}), "muster-j-0");
    const auto asked = ranks.on_line(kFirst, "cmd=barrier_in");
    const auto effects =
        ranks.on_told({.number = asked.asked.at(0).number, .ok = true, .text = wire::Bytes(text)});
    EXPECT_THAT(effects.replies, IsEmpty()) << text;
    EXPECT_THAT(effects.remarks, ElementsAre(HasSubstr("cannot gather the data"))) << text;
    EXPECT_THAT(effects.ended, ElementsAre(LocalRank(0))) << "it would wait";
  }
}

TEST(PmiRanks, PublishNamesThroughTheLauncher) {
  PmiRanks ranks(plan_of({1, 1}), "muster-j-0");
  const auto published = ranks.on_line(kFirst, "cmd=publish_name service=here port=p:1");
  ASSERT_EQ(published.asked.size(), 1U);
  EXPECT_EQ(published.asked[0].verb, MpiVerb::kPublish);
  EXPECT_EQ(published.asked[0].key, "here");
  EXPECT_EQ(published.asked[0].text.view(), "p:1");
  EXPECT_THAT(replies(ranks.on_told({.number = published.asked[0].number, .ok = false})),
              ElementsAre(HasSubstr("publish_result rc=-1")));
  const auto looked = ranks.on_line(kFirst, "cmd=lookup_name service=here");
  EXPECT_THAT(
      replies(ranks.on_told({.number = looked.asked.at(0).number, .ok = true, .text = wire::Bytes("p:1")})),
      ElementsAre("0 cmd=lookup_result rc=0 msg=success port=p:1"));
}

TEST(PmiRanks, ASpawnIsRefusedAndReportedOnce) {
  PmiRanks ranks(plan_of({1}), "muster-j-0");
  EXPECT_THAT(ranks.on_line(kFirst, "mcmd=spawn").replies, IsEmpty());
  EXPECT_THAT(ranks.on_line(kFirst, "nprocs=1").replies, IsEmpty());
  const auto last = ranks.on_line(kFirst, "endcmd");
  EXPECT_THAT(replies(last), ElementsAre(HasSubstr("spawn_result rc=-1")));
  EXPECT_THAT(last.remarks, ElementsAre(HasSubstr("MPI_Comm_spawn")));
}

TEST(PmiRanks, KnowWhichRanksAbortedAndWhichLeftTooEarly) {
  PmiRanks ranks(plan_of({2}), "muster-j-0");
  wire::WorkerExited well;
  EXPECT_EQ(ranks.fault_of(kFirst, well), "") << "it is not an MPI program";
  ranks.on_line(kFirst, "cmd=init");
  EXPECT_THAT(ranks.fault_of(kFirst, well), HasSubstr("without MPI_Finalize"));
  wire::WorkerExited killed;
  killed.signal = 9;
  EXPECT_EQ(ranks.fault_of(kFirst, killed), "") << "that says it all";
  ranks.on_line(kFirst, "cmd=finalize");
  EXPECT_EQ(ranks.fault_of(kFirst, well), "");
  const auto effects = ranks.on_line(kSecond, "cmd=abort exitcode=3");
  EXPECT_THAT(effects.aborted, ElementsAre(kSecond));
  EXPECT_THAT(effects.ended, ElementsAre(kSecond));
  wire::WorkerExited aborted;
  aborted.signal = 13;
  EXPECT_EQ(ranks.fault_of(kSecond, aborted), "called MPI_Abort with 3");
  EXPECT_EQ(aborted.exit_code, 3);
  EXPECT_EQ(aborted.signal, 0);
}

TEST(MpiFault, HasTheMessageOfAnAbortIfThereIsOne) {
  EXPECT_EQ(abort_text(3, "the mesh is torn"), "called MPI_Abort with 3: the mesh is torn");
  EXPECT_EQ(abort_text(3, "N/A"), "called MPI_Abort with 3");
  EXPECT_EQ(abort_text(3, ""), "called MPI_Abort with 3");
}

}  // namespace
}  // namespace muster::agent
