// The hosts that take part in a job: a host that never answers delays no other, a lost host is replaced, and
// a host that comes back cleans up.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

#include "tests/commits_script.h"
#include "tests/hosts/launch_hosts.h"

namespace muster::hosts {
namespace {

using testing::HasSubstr;
using testing::Not;

class LaunchNodes : public LaunchHosts {
 protected:
  std::string logs() const { return std::filesystem::path(run_->job_directory()).parent_path(); }
  // The output of a launch command on that host about this job.
  std::string said_on(int host, std::vector<std::string> words) const {
    words.insert(words.begin(), LAUNCH_PROGRAM);
    words.insert(words.end(), {"--log-dir", logs()});
    std::string said;
    EXPECT_EQ(lab_->host(host).run(words, &said), 0) << said;
    return said;
  }
  // "event node" of each line of events.jsonl, in order.
  std::vector<std::string> events() const {
    std::vector<std::string> all;
    std::ifstream file(run_->job_directory() + "/events.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto event = nlohmann::json::parse(line);
      const auto node = event.find("node");
      all.push_back(event.value("event", "?") +
                    (node != event.end() && node->is_number() ? fmt::format(" {}", node->get<int>()) : ""));
    }
    return all;
  }
  // The program waits for ever in the first attempt, and in later ones until the test calls go().
  std::vector<std::string> until_told() const {
    return {"sh", "-c",
            fmt::format("echo ready $TORCHELASTIC_RESTART_COUNT of $WORLD_SIZE; "
                        "[ $TORCHELASTIC_RESTART_COUNT -ge 1 ] || exec sleep 1000; "
                        "while [ ! -e {}/go ]; do sleep 0.05; done",
                        lab_->shared())};
  }
  void go() const { std::ofstream(lab_->shared() + "/go") << ""; }
};

// The host never answers, and the job ends before the launcher knows that.
TEST_F(LaunchNodes, OneOfSixteenHostsThatDropsPacketsDelaysNobodyElse) {
  lab_ = std::make_unique<Lab>(16);
  lab_->drop_packets_to(1);
  launch(16, {"--nodes", "15:16", "--start-timeout", "1", "--connect-timeout", "170", "--ssh-parallel", "4"},
         {"sh", "-c", "echo rank $RANK of $WORLD_SIZE"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  for (int rank = 0; rank < 15; ++rank)
    EXPECT_THAT(run_->out(), HasSubstr(fmt::format("rank {} of 15\n", rank)));
  const std::vector<std::string> all = events();
  const auto at = [&](const std::string& event) { return std::ranges::find(all, event) - all.begin(); };
  const auto begun = at("attempt_begun");
  for (int node = 0; node < 16; ++node) {
    if (node != 1) EXPECT_LT(at(fmt::format("agent_joined {}", node)), begun) << node;
  }
  EXPECT_LT(begun, at("job_ended"));
  EXPECT_GT(at("node_lost 1"), at("job_ended")) << "the job waited for it: " << run_->err();
  EXPECT_THAT(run_->err(), Not(HasSubstr("no answer")));
  expect_nothing_left();
}

// The launcher tells the host to; on its own it would go on for a minute.
TEST_F(LaunchNodes, AHostThatComesBackCleansUpWhileTheJobGoesOnWithoutIt) {
  lab_ = std::make_unique<Lab>(4);
  launch(4, {"--nodes", "3", "--controller-grace", "60"}, until_told());
  ASSERT_TRUE(eventually([&] { return printed_count("ready 0 of 3") == 3; })) << run_->err();
  lab_->isolate(1);
  ASSERT_TRUE(eventually([&] { return printed_count("ready 1 of 3") == 3; })) << run_->err();
  EXPECT_FALSE(lab_->processes(1, "sleep").empty()) << "it has not heard of that yet";
  lab_->heal();
  EXPECT_TRUE(eventually([&] { return lab_->processes(1, "sleep").empty(); }, 12s)) << commands(1);
  EXPECT_TRUE(is_running(run_->pid()));
  go();
  expect_recovered(*run_, 1);
  expect_nothing_left();
}

TEST_F(LaunchNodes, FewerNodesGoOnWithoutAHostThatIsCutOff) {
  lab_ = std::make_unique<Lab>(3);
  launch(3, {"--nodes", "2:3"}, until_told());
  ASSERT_TRUE(eventually([&] { return printed_count("ready 0 of 3") == 3; })) << run_->err();
  lab_->isolate(2);
  EXPECT_TRUE(eventually([&] { return printed_count("ready 1 of 2") == 2; })) << run_->err();
  go();
  expect_recovered(*run_, 2);
  lab_->heal();
  expect_nothing_left(10s);
}

TEST_F(LaunchNodes, AHostThatNobodyCanReplaceTakesPartAgainWhenItIsBack) {
  lab_ = std::make_unique<Lab>(3);
  launch(3, {"--connect-timeout", "2", "--restart-delay", "0.2", "--max-restarts", "20"}, until_told());
  ASSERT_TRUE(eventually([&] { return printed_count("ready 0 of 3") == 3; })) << run_->err();
  go();
  lab_->isolate(2);
  ASSERT_TRUE(eventually([&] { return std::ranges::count(events(), "node_lost 2") > 0; })) << run_->err();
  lab_->heal();
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->out(), HasSubstr(" of 3\n"));
  EXPECT_EQ(run_->report()["attempts"].back()["world_size"], 3);
  EXPECT_EQ(run_->report()["attempts"][0]["culprit"]["node"], 2);
  expect_nothing_left();
}

TEST_F(LaunchNodes, AHostThatIsAddedOverSshTakesPartFromTheNextAttempt) {
  lab_ = std::make_unique<Lab>(3);
  launch(2, {"--nodes", "1:3"}, until_told());
  ASSERT_TRUE(eventually([&] { return printed_count("ready 0 of 2") == 2; })) << run_->err();
  EXPECT_THAT(said_on(0, {"nodes", "add", "h2"}), HasSubstr("node2 (h2) takes part from the next attempt"));
  ASSERT_TRUE(eventually([&] { return std::ranges::count(events(), "agent_joined 2") > 0; })) << run_->err();
  const auto workers = lab_->processes(1, "sleep");
  ASSERT_FALSE(workers.empty());
  kill(workers[0], SIGKILL);
  ASSERT_TRUE(eventually([&] { return printed_count("ready 1 of 3") == 3; })) << run_->err();
  EXPECT_FALSE(lab_->processes(2).empty());
  go();
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  expect_nothing_left();
}

TEST_F(LaunchNodes, AHostThatIsAddedNowTakesPartAfterTheNextCommit) {
  lab_ = std::make_unique<Lab>(3);
  launch(2, {"--nodes", "1:3", "--max-restarts", "0"}, {"python3", "-c", kCommitsUntilThree});
  ASSERT_TRUE(eventually([&] { return printed_count(" of 2 on h") == 2; })) << run_->err();
  EXPECT_THAT(said_on(0, {"nodes", "add", "h2", "--grow", "now"}), HasSubstr("node2 (h2) takes part"));
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->out(), HasSubstr("rank 2 of 3 on h2\n"));
  expect_nothing_left();
}

TEST_F(LaunchNodes, AnyHostThatSeesTheLogDirectoryShowsTheJob) {
  lab_ = std::make_unique<Lab>(2);
  launch(2, {},
         {"sh", "-c", fmt::format("echo ready; while [ ! -e {}/go ]; do sleep 0.05; done", lab_->shared())});
  ASSERT_NO_FATAL_FAILURE(all_are_ready(2));
  const std::string id = std::filesystem::path(run_->job_directory()).filename();
  EXPECT_THAT(said_on(1, {"ps"}), HasSubstr(id));
  EXPECT_THAT(said_on(1, {"status", id}), HasSubstr("running"));
  ASSERT_TRUE(eventually([&] { return count_in(said_on(1, {"logs"}), ": ready\n") == 2; }));
  go();
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(said_on(1, {"status", id}), HasSubstr(id + " succeeded"));
  EXPECT_THAT(said_on(1, {"report"}), HasSubstr("2 ranks succeeded"));
}

// The launcher reaches all hosts, but h1, which has the store, reaches no other member.
TEST_F(LaunchNodes, AHostThatNoOtherMemberReachesIsReplacedInARestart) {
  lab_ = std::make_unique<Lab>(5);
  launch_on("h1,h2,h3,h4", {"--nodes", "3", "--interface", "10.77.0.0/16"}, until_told());
  ASSERT_TRUE(eventually([&] { return printed_count("ready 0 of 3") == 3; })) << run_->err();
  for (const int other : {2, 3, 4}) lab_->cut(1, other);
  go();
  std::vector<pid_t> workers;
  ASSERT_TRUE(eventually([&] { return !(workers = lab_->processes(3, "sleep")).empty(); }));
  kill(workers[0], SIGKILL);
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  const std::vector<std::string> all = events();
  EXPECT_EQ(std::ranges::count(all, "node_lost 0"), 1) << run_->err();
  for (const char* other : {"node_lost 1", "node_lost 2"})
    EXPECT_EQ(std::ranges::count(all, other), 0) << other;
  EXPECT_EQ(run_->report()["restarts"], 2);
  expect_nothing_left();
}

}  // namespace
}  // namespace muster::hosts
