#include "runtime/rank/reports.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <limits>
#include <map>
#include <memory>
#include <muster/rank/section.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/base/clock.h"
#include "runtime/rank/step_time.h"
#include "tests/fake_agent.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

TEST(Reports, SayWhoInWhichAttemptAndWhat) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 3, 7);
  reports.send("committed", 400, "step-400");
  const nlohmann::json expected{{"v", 1},      {"type", "committed"}, {"rank", 3},         {"attempt", 7},
                                {"step", 400}, {"pid", getpid()},     {"text", "step-400"}};
  EXPECT_EQ(agent.next("committed"), expected);
}

// Whoever sends to this socket next finds it full.
void fill(const std::string& path) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const std::string other = R"({"type":"other"})";
  while (sendto(fd.get(), other.data(), other.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&address),
                sizeof address) > 0) {
  }
  ASSERT_EQ(errno, EAGAIN);
}

TEST(Reports, WhatDecidesAboutTheJobIsKeptUntilTheAgentTakesIt) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 3, 7);
  fill(scratch / "s");
  for (const int step : {400, 500}) reports.send("committed", step);
  for (const int step : {400, 500}) EXPECT_EQ(agent.next("committed")["step"], step);
}

TEST(Reports, MetricsAreKeptUntilTheAgentTakesThemAndDisplaceNothing) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  auto reports = std::make_unique<Reports>(scratch / "s", 3, 7);
  fill(scratch / "s");
  reports->send("committed", 400);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (int step = 1; step <= 1000; ++step) reports->metrics(step, {{"val_loss", step / 8.0}});
  reports->metrics(1001,
                   {{"a", std::numeric_limits<double>::quiet_NaN()}, {"b", kInfinity}, {"c", -kInfinity}});
  EXPECT_EQ(agent.next("committed")["step"], 400);
  // The end waits until the agent has taken them.
  std::thread end([&] { reports.reset(); });
  for (int step = 1; step <= 1000; ++step) {
    const nlohmann::json metric = agent.next("metric");
    ASSERT_EQ(metric["step"], step);
    ASSERT_EQ(metric["values"], nlohmann::json({{"val_loss", step / 8.0}}));
  }
  EXPECT_EQ(agent.next("metric")["values"], nlohmann::json({{"a", "nan"}, {"b", "inf"}, {"c", "-inf"}}));
  end.join();
}

TEST(Reports, ManyMetricsAtOnceFitIntoWhatAnAgentReads) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 3, 7);
  std::map<std::string, double> values;
  for (int i = 0; i < 100; ++i) values[fmt::format("{:x>125}{}", "", 100 + i)] = -1.7976931348623157e308;
  reports.metrics(5, values);
  std::map<std::string, double> told;
  while (told.size() < values.size()) {
    const nlohmann::json metric = agent.next("metric");
    ASSERT_TRUE(metric.is_object());
    EXPECT_LE(metric.dump().size(), 4096U);
    told.merge(metric["values"].get<std::map<std::string, double>>());
  }
  EXPECT_EQ(told, values);
}

TEST(Reports, BeatEverySecondWithTheNewestStep) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  EXPECT_EQ(agent.next("heartbeat")["step"], -1);
  reports.step(1);
  EXPECT_EQ(agent.next("step")["step"], 1);
  for (int step = 2; step <= 1000; ++step) reports.step(step);
  EXPECT_EQ(agent.next("heartbeat")["step"], 1000);
}

TEST(Reports, TellHowLongTheOwnWorkOfAStepTookIfThatIsKnown) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  reports.step(1);
  EXPECT_FALSE(agent.next("step").contains("busy_ms"));
  const TimePoint now = Clock::now();
  step_time().end(step_time().begin(kCommunicatePart, now), now);
  reports.step(2);
  const auto step = agent.next("step");
  EXPECT_GT(step.value("busy_ms", -1.0), 0);
  EXPECT_LT(step.value("busy_ms", 1e9), 60'000);
  reports.step(3);
  EXPECT_FALSE(agent.next("step").contains("busy_ms")) << "nobody waited in this one";
}

TEST(Reports, TellInWhichGroupAStepWasMade) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  int step = 0;
  const auto group_of_step = [&](std::initializer_list<const char*> met) {
    for (const char* group : met) step_time().meets(group);
    reports.step(++step);
    return agent.next("step").value("group", "");
  };
  EXPECT_EQ(group_of_step({"left", "left"}), "left");
  EXPECT_EQ(group_of_step({}), "left") << "nobody was met: an accumulation of gradients";
  EXPECT_EQ(group_of_step({"left", "", "left"}), "") << "of several it is the world";
  EXPECT_EQ(group_of_step({"right"}), "right");
  EXPECT_EQ(group_of_step({""}), "");
}

TEST(Reports, TellWhereTheTimeOfAllStepsWent) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  reports.step(1);
  const std::int64_t before = step_time().total().step_count;
  const TimePoint now = Clock::now();
  step_time().end(step_time().begin(kDataPart, now), now + std::chrono::milliseconds(1));
  reports.step(2);
  reports.send_profile();
  const auto profile = agent.next("profile");
  EXPECT_EQ(profile.value("steps", 0), before + 1) << profile;
  EXPECT_GE(profile.at("parts_ms").value("data", 0.0), 1) << profile;
  EXPECT_TRUE(profile.at("parts_ms").contains("compute")) << profile;
}

// A part of a step, by the clock of the test.
void spend(StepTime& time, std::string_view part, TimePoint from, Duration length) {
  time.end(time.begin(part, from), from + length);
}

class StepTimeTest : public testing::Test {
 protected:
  std::int64_t total_ms(const std::string& part) const {
    const RankSteps all = time.total();
    const auto found = all.parts_ns.find(part);
    return found == all.parts_ns.end() ? -1 : found->second / 1'000'000;
  }
  StepTime time;
  const TimePoint start{std::chrono::seconds(1000)};
};

using namespace std::chrono_literals;

TEST_F(StepTimeTest, GivesEachPartItsTimeAndTheRestToComputing) {
  spend(time, kDataPart, start - 10ms, 5ms);
  EXPECT_EQ(time.step_ended(start), std::nullopt) << "what was before the first step is not known";
  spend(time, kDataPart, start, 5ms);
  spend(time, kCommunicatePart, start + 40ms, 20ms);
  EXPECT_EQ(time.step_ended(start + 70ms), 50ms) << "its own work is all but the wait for others";
  spend(time, kCommunicatePart, start + 100ms, 70ms);
  spend(time, kCheckpointPart, start + 170ms, 5ms);
  EXPECT_EQ(time.step_ended(start + 180ms), 35ms);
  EXPECT_EQ(time.total().step_count, 2);
  EXPECT_EQ(total_ms("data"), 5);
  EXPECT_EQ(total_ms("communicate"), 90);
  EXPECT_EQ(total_ms("checkpoint"), 5);
  EXPECT_EQ(total_ms("compute"), 80);
}

TEST_F(StepTimeTest, CountsTheOuterOfTwoParts) {
  time.step_ended(start);
  const auto section = time.begin("eval", start + 10ms);
  spend(time, kDataPart, start + 20ms, 10ms);
  spend(time, kCommunicatePart, start + 40ms, 10ms);
  time.end(section, start + 60ms);
  EXPECT_EQ(time.step_ended(start + 100ms), std::nullopt) << "of the step itself nobody waited";
  EXPECT_EQ(total_ms("eval"), 50);
  EXPECT_EQ(total_ms("data"), -1);
  EXPECT_EQ(total_ms("compute"), 50);
}

TEST_F(StepTimeTest, DividesAPartAsFarAsItGoes) {
  time.step_ended(start);
  spend(time, kCommunicatePart, start, 50ms);
  time.divide(kCommunicatePart, {{"bubble", 30ms}, {"link", 25ms}});
  EXPECT_EQ(time.step_ended(start + 60ms), 10ms) << "it is still known that somebody waited";
  time.divide(kCommunicatePart, {{"bubble", 30ms}});
  time.step_ended(start + 70ms);
  EXPECT_EQ(total_ms("bubble"), 30);
  EXPECT_EQ(total_ms("link"), 20);
  EXPECT_EQ(total_ms("communicate"), 0);
  EXPECT_EQ(total_ms("compute"), 20);
}

TEST_F(StepTimeTest, LooksThroughASectionAroundSteps) {
  time.step_ended(start);
  const auto section = time.begin("train", start);
  spend(time, kCommunicatePart, start + 10ms, 20ms);
  EXPECT_EQ(time.step_ended(start + 100ms), 80ms);
  spend(time, kCommunicatePart, start + 110ms, 20ms);
  EXPECT_EQ(time.step_ended(start + 200ms), 80ms);
  time.end(section, start + 210ms);
  time.step_ended(start + 300ms);
  EXPECT_EQ(total_ms("train"), -1);
  EXPECT_EQ(total_ms("communicate"), 40);
}

TEST_F(StepTimeTest, DoesNotKnowTheOwnWorkOfAStepWhoseWaitWasNotSeenToEnd) {
  EXPECT_EQ(time.step_ended(start), std::nullopt);
  EXPECT_EQ(time.step_ended(start + 10ms), std::nullopt) << "nobody waited";
  const auto wait = time.begin(kCommunicatePart, start + 15ms);
  EXPECT_EQ(time.step_ended(start + 20ms), std::nullopt) << "an error ended the wait";
  time.end(wait, start + 25ms);
  EXPECT_EQ(time.step_ended(start + 30ms), std::nullopt);
}

TEST_F(StepTimeTest, TellsOnlySomeNamesApart) {
  time.step_ended(start);
  for (int i = 0; i < 1000; ++i) spend(time, "section " + std::to_string(i), start + i * 1ms, 1ms);
  time.step_ended(start + 2000ms);
  EXPECT_LE(time.total().parts_ns.size(), 16U);
  EXPECT_EQ(total_ms("section 3"), 1);
  std::int64_t sum = 0;
  for (const auto& [part, ns] : time.total().parts_ns) sum += ns;
  EXPECT_EQ(sum, 2'000'000'000);
}

TEST(Reports, TellEveryStepOfAShortBurst) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  for (int step = 1; step <= 100; ++step) {
    reports.step(step);
    ASSERT_EQ(agent.next("step")["step"], step);
  }
}

TEST(Reports, NeverBlockWhenTheAgentDoesNotRead) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  for (int i = 0; i < 10'000; ++i) reports.send("committed", i);
  EXPECT_EQ(agent.next("committed")["step"], 0);
}

TEST(Reports, GoOnWhenTheAgentIsGone) {
  ScratchDirectory scratch;
  auto agent = std::make_unique<FakeAgent>(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  agent.reset();
  reports.send("committed", 1);
  reports.step(2);
  EXPECT_EQ(reports.newest_step(), 2);
}

TEST(Reports, AreNothingWithoutASocket) {
  Reports unnamed("", 0, 1);
  Reports missing("/nonexistent/socket", 0, 1);
  Reports too_long(std::string(200, 'x'), 0, 1);
  unnamed.step(5);
  EXPECT_EQ(unnamed.newest_step(), 5);
}

TEST(Reports, StayValidJsonWhateverTheText) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  reports.send("fenced", 1, std::string(10'000, '\xff'));
  EXPECT_EQ(agent.next("fenced")["step"], 1);
}

TEST(Reports, SayHelloWithWhatTheyCanDo) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  EXPECT_EQ(agent.next("hello")["text"], "stacks");
  reports.offer_preemption();
  EXPECT_EQ(agent.next("hello")["text"], "stacks preemption");
}

TEST(Reports, SayHelloUntilItIsHeard) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  fill(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  EXPECT_EQ(agent.next("hello")["rank"], 0);
}

TEST(Reports, WriteTheStacksOfAllThreadsWhenOrdered) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  agent.next("heartbeat");
  agent.order({{"v", 1}, {"type", "dump"}, {"path", scratch / "stacks.txt"}});
  EXPECT_FALSE(agent.next("stacks").is_null());
  // This thread's, wherever it is by then.
  EXPECT_THAT(read_file(scratch / "stacks.txt", 1 << 20).value_or(""),
              testing::ContainsRegex("thread [0-9]+ \\(reports_test\\).*\n    "));
}

TEST(Reports, NoteANoticeOfPreemptionAndNoGarbage) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  agent.next("heartbeat");
  agent.order("garbage");
  agent.order({{"type", "dump"}, {"path", 5}});
  agent.order({{"v", 1}, {"type", "preempt"}, {"grace_ms", 1000}});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!reports.preemption_noticed() && std::chrono::steady_clock::now() < deadline)
    agent.next("heartbeat");
  EXPECT_TRUE(reports.preemption_noticed());
}

// A worker that finds the agent's socket full, says this on notice as its last, and is gone.
void expect_its_last_word_to_be_taken(const std::string& type) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd is_full(ends[0]), say_full(ends[1]);
  const pid_t worker = fork();
  if (worker == 0) {
    alarm(60);
    Reports reports(scratch / "s", 0, 1);
    reports.offer_preemption();
    while (!reports.preemption_noticed()) std::this_thread::yield();
    char byte = 0;
    if (read(is_full.get(), &byte, 1) == 1) reports.send(type, 400);
    _exit(75);
  }
  while (agent.next("hello")["text"] != "stacks preemption") continue;
  agent.order({{"v", 1}, {"type", "preempt"}, {"grace_ms", 1000}});
  fill(scratch / "s");
  ASSERT_EQ(write(say_full.get(), "x", 1), 1);
  // One that does not wait is gone now, and what it said with it.
  const UniqueFd handle(static_cast<int>(syscall(SYS_pidfd_open, worker, 0)));
  pollfd gone{handle.get(), POLLIN, 0};
  EXPECT_EQ(poll(&gone, 1, 300), 0);
  const nlohmann::json said = agent.next(type);
  EXPECT_TRUE(said.is_object() && said["step"] == 400) << said;
  int status = 0;
  waitpid(worker, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 75);
}

TEST(Reports, AWorkerThatLeavesOnNoticeWaitsUntilTheAgentHasTakenWhatItSaid) {
  expect_its_last_word_to_be_taken("preempted");
}

// As a program with a loop of its own does: it saves, says so, and is gone.
TEST(Reports, ACommitOnNoticeIsTakenBeforeTheWorkerIsGone) {
  expect_its_last_word_to_be_taken("committed");
}

TEST(Reports, TellOfSections) {
  const auto before = section("nobody listens");
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  {
    const auto outer = section("outer");
    EXPECT_EQ(agent.next("section")["state"], "enter");
    {
      const auto inner = section("inner");
      EXPECT_EQ(agent.next("section")["name"], "inner");
      auto beat = agent.next("heartbeat");
      while (beat["section"] != "inner" || beat["section_ms"] < 500) beat = agent.next("heartbeat");
    }
    const auto left = agent.next("section");
    EXPECT_EQ(left["name"], "inner");
    EXPECT_EQ(left["state"], "leave");
  }
  EXPECT_EQ(agent.next("section")["name"], "outer");
  EXPECT_EQ(agent.next("heartbeat")["section"], "nobody listens");
}

TEST(Reports, TellOfNoMoreSectionsThanAnAgentCanRead) {
  ScratchDirectory scratch;
  FakeAgent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  agent.next("heartbeat");
  for (int i = 0; i < 10'000; ++i) const auto quick = section("quick");
  int count = 0;
  while (agent.next("section")["state"] == "enter") {
    ASSERT_EQ(agent.next("section")["state"], "leave");
    if (++count == 5) break;
  }
  EXPECT_EQ(count, 5);
}

}  // namespace
}  // namespace muster
