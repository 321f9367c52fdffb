#include "common/net/moving_channel.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sys/socket.h>

#include "common/net/connection.h"

namespace muster::net {
namespace {

std::string numbered(std::uint64_t sequence, std::size_t payload_bytes = 100) {
  std::string body, bytes;
  nlohmann::json::to_cbor(std::string(payload_bytes, 'x'), body);
  wire::append_frame(bytes, {1, NodeId(0), wire::kLauncher, Term(1), Attempt(0), Sequence(sequence)}, body);
  return bytes;
}

struct Side {
  std::shared_ptr<Connection> first, next;
  std::shared_ptr<MovingChannel> channel;
  std::vector<std::uint64_t> heard;
  std::optional<Error> end;
};

class MovingChannelTest : public testing::Test {
 protected:
  MovingChannelTest() {
    std::tie(launcher_.first, agent_.first) = pair();
    std::tie(launcher_.next, agent_.next) = pair();
    for (Side* side : {&launcher_, &agent_}) {
      side->channel = std::make_shared<MovingChannel>(side->first);
      side->channel->start(
          [side](const wire::Frame& frame) { side->heard.push_back(frame.header.sequence.value()); },
          [side](const Error& why) { side->end = why; });
    }
  }
  ~MovingChannelTest() override {
    launcher_.channel->close();
    agent_.channel->close();
    launcher_.next->close();
    agent_.next->close();
    run();
  }
  std::pair<std::shared_ptr<Connection>, std::shared_ptr<Connection>> pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    return {Connection::make(adopt_socket(io_.get_executor(), ends[0]), nullptr),
            Connection::make(adopt_socket(io_.get_executor(), ends[1]), nullptr)};
  }
  void run() {
    io_.restart();
    io_.poll();
  }
  static std::vector<std::uint64_t> up_to(std::uint64_t last) {
    std::vector<std::uint64_t> all(last);
    std::iota(all.begin(), all.end(), 1);
    return all;
  }
  void move() {
    agent_.channel->follow_to(agent_.next);
    launcher_.channel->move_to(launcher_.next);
    run();
    ASSERT_TRUE(launcher_.channel->moved() && agent_.channel->moved());
  }

  asio::io_context io_;
  Side launcher_, agent_;
};

TEST_F(MovingChannelTest, NoFrameIsLostOrOvertakenHoweverMuchIsOnItsWay) {
  constexpr std::uint64_t kFrames = 300;
  constexpr std::size_t kBytes = 20'000;  // a socket holds ten of these
  for (std::uint64_t i = 1; i <= kFrames; ++i) {
    if (i == 100) launcher_.channel->move_to(launcher_.next);
    if (i == 150) agent_.channel->follow_to(agent_.next);
    launcher_.channel->send(numbered(i, kBytes));
    agent_.channel->send(numbered(i, kBytes));
    if (i % 40 == 0) io_.poll_one();
  }
  EXPECT_GT(launcher_.channel->backlog_bytes(), kBytes);
  run();
  EXPECT_EQ(agent_.heard, up_to(kFrames));
  EXPECT_EQ(launcher_.heard, up_to(kFrames));
  EXPECT_TRUE(launcher_.channel->moved());
  EXPECT_TRUE(agent_.channel->moved());
  EXPECT_EQ(launcher_.channel->backlog_bytes(), 0U);
}

TEST_F(MovingChannelTest, TheAgentsSideMovesWhenTheLaunchersHas) {
  agent_.channel->follow_to(agent_.next);
  agent_.channel->send(numbered(1));
  run();
  EXPECT_EQ(launcher_.heard, up_to(1))
      << "on the first stream, because the launcher may refuse the connection";
  launcher_.channel->move_to(launcher_.next);
  run();
  EXPECT_TRUE(agent_.channel->moved());
}

TEST_F(MovingChannelTest, TheLaunchersSideMayMoveBeforeTheAgentsIsReady) {
  launcher_.channel->move_to(launcher_.next);
  launcher_.channel->send(numbered(1));
  run();
  EXPECT_TRUE(agent_.heard.empty());
  agent_.channel->follow_to(agent_.next);
  run();
  EXPECT_EQ(agent_.heard, up_to(1));
}

TEST_F(MovingChannelTest, TheEndOfTheLeftStreamIsIgnored) {
  move();
  launcher_.first->close();
  run();
  launcher_.channel->send(numbered(1));
  agent_.channel->send(numbered(1));
  run();
  EXPECT_EQ(agent_.heard, up_to(1));
  EXPECT_EQ(launcher_.heard, up_to(1));
  EXPECT_FALSE(agent_.end);
  agent_.next->close();
  run();
  EXPECT_TRUE(launcher_.end);
  EXPECT_TRUE(launcher_.channel->closed());
}

TEST_F(MovingChannelTest, TheEndOfTheFirstStreamBeforeItsLastFrameIsTheEnd) {
  launcher_.channel->move_to(launcher_.next);
  agent_.first->close();
  run();
  ASSERT_TRUE(launcher_.end);
  EXPECT_EQ(launcher_.end->code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(launcher_.next->closed());
}

TEST_F(MovingChannelTest, AFrameAfterTheLastOneOfItsStreamIsAnError) {
  move();
  launcher_.first->send(numbered(7));
  run();
  ASSERT_TRUE(agent_.end);
  EXPECT_EQ(agent_.end->code(), ErrorCode::kCorrupt);
  EXPECT_TRUE(agent_.heard.empty());
}

TEST_F(MovingChannelTest, ASecondMoveIsRefused) {
  move();
  auto [ours, theirs] = pair();
  launcher_.channel->move_to(ours);
  EXPECT_TRUE(ours->closed());
  theirs->close();
  launcher_.channel->send(numbered(1));
  run();
  EXPECT_EQ(agent_.heard, up_to(1));
}

}  // namespace
}  // namespace muster::net
