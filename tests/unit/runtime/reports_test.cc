#include "runtime/control/reports.h"

#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/scratch_directory.h"

namespace muster {
namespace {

// The agent's end.
class Agent {
 public:
  explicit Agent(const std::string& path) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    CHECK(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  }
  // The next datagram that is of this type; waits for 10 s at most.
  nlohmann::json next(const std::string& type) {
    while (true) {
      pollfd entry{fd_.get(), POLLIN, 0};
      if (poll(&entry, 1, 10'000) != 1) return nullptr;
      char bytes[8192];
      const auto size = recv(fd_.get(), bytes, sizeof bytes, 0);
      auto message = nlohmann::json::parse(bytes, bytes + size);
      if (message["type"] == type) return message;
    }
  }

 private:
  UniqueFd fd_;
};

TEST(Reports, SayWhoInWhichAttemptAndWhat) {
  ScratchDirectory scratch;
  Agent agent(scratch / "s");
  Reports reports(scratch / "s", 3, 7);
  reports.send("committed", 400, "step-400");
  const nlohmann::json expected{{"v", 1},      {"type", "committed"}, {"rank", 3},         {"attempt", 7},
                                {"step", 400}, {"pid", getpid()},     {"text", "step-400"}};
  EXPECT_EQ(agent.next("committed"), expected);
}

TEST(Reports, BeatEverySecondWithTheNewestStep) {
  ScratchDirectory scratch;
  Agent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  EXPECT_EQ(agent.next("heartbeat")["step"], -1);
  reports.step(1);
  EXPECT_EQ(agent.next("step")["step"], 1);
  for (int step = 2; step <= 1000; ++step) reports.step(step);
  EXPECT_EQ(agent.next("heartbeat")["step"], 1000);
}

TEST(Reports, TellEveryStepOfAShortBurst) {
  ScratchDirectory scratch;
  Agent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  for (int step = 1; step <= 100; ++step) {
    reports.step(step);
    ASSERT_EQ(agent.next("step")["step"], step);
  }
}

TEST(Reports, NeverBlockWhenTheAgentDoesNotRead) {
  ScratchDirectory scratch;
  Agent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  for (int i = 0; i < 100'000; ++i) reports.send("committed", i);
  EXPECT_EQ(agent.next("committed")["step"], 0);
}

TEST(Reports, GoOnWhenTheAgentIsGone) {
  ScratchDirectory scratch;
  auto agent = std::make_unique<Agent>(scratch / "s");
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
  Agent agent(scratch / "s");
  Reports reports(scratch / "s", 0, 1);
  reports.send("fenced", 1, std::string(10'000, '\xff'));
  EXPECT_EQ(agent.next("fenced")["step"], 1);
}

}  // namespace
}  // namespace muster
