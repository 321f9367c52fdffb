#include "common/net/kept_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "common/net/connection.h"

namespace muster::net {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string frame_of(std::uint64_t sequence) {
  std::string bytes;
  wire::append_frame(bytes, {1, NodeId(0), wire::kLauncher, Term(1), Attempt(0), Sequence(sequence)}, "\xf6");
  return bytes;
}

// Collects the frames that one side gets in one conversation.
struct Heard {
  std::shared_ptr<Channel> channel{};
  std::vector<std::uint64_t> frames{};
  bool ended = false;

  void start() {
    channel->start([this](const wire::Frame& frame) { frames.push_back(frame.header.sequence.value()); },
                   [this](const Error&) { ended = true; });
  }
};

class KeptStreamTest : public testing::Test {
 protected:
  KeptStreamTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    launcher_ = keep(ends[0]);
    agent_ = keep(ends[1]);
  }
  ~KeptStreamTest() override {
    launcher_->close();
    agent_->close();
    run();
  }
  std::shared_ptr<KeptStream> keep(int socket) {
    return KeptStream::make(io_.get_executor(),
                            Connection::make(adopt_socket(io_.get_executor(), socket), nullptr));
  }
  void run() {
    io_.restart();
    io_.poll();
  }
  bool answered(Duration limit) {
    std::optional<bool> result;
    asio::co_spawn(io_, ask(launcher_, Clock::now() + limit, result), asio::detached);
    io_.restart();
    while (!result) io_.run_one();
    return *result;
  }
  static awaitable<void> ask(std::shared_ptr<KeptStream> stream, TimePoint deadline,
                             std::optional<bool>& result) {
    result = co_await stream->answered(deadline);
  }

  asio::io_context io_;
  std::shared_ptr<KeptStream> launcher_, agent_;
};

TEST_F(KeptStreamTest, NoFrameReachesTheNextConversation) {
  bool over = false;
  Heard first{launcher_->converse([&over] { over = true; })};
  Heard agents_first{agent_->converse()};
  first.start();
  agents_first.start();
  agents_first.channel->send(frame_of(1));
  run();
  EXPECT_THAT(first.frames, ElementsAre(1));
  EXPECT_FALSE(over);

  agents_first.channel->send(frame_of(2));
  agents_first.channel->close();
  agents_first.channel->send(frame_of(3));
  agent_->send_job_over();
  first.channel->send(frame_of(1));  // before it has heard that the job is over
  run();
  EXPECT_THAT(first.frames, ElementsAre(1, 2));
  EXPECT_TRUE(first.ended);
  EXPECT_TRUE(over);
  EXPECT_THAT(agents_first.frames, IsEmpty());

  first.channel->close();
  first.channel->send(frame_of(2));
  launcher_->send_next_job({"--node", "7"});
  Heard second{launcher_->converse()};
  run();
  EXPECT_THAT(*agent_->take_next_job(), ElementsAre("--node", "7"));
  EXPECT_FALSE(agent_->take_next_job());
  Heard agents_second{agent_->converse()};
  agents_second.start();
  agents_second.channel->send(frame_of(1));
  second.channel->send(frame_of(4));
  run();
  second.start();  // the frame that came before has waited
  run();
  EXPECT_THAT(second.frames, ElementsAre(1));
  EXPECT_THAT(agents_second.frames, ElementsAre(4));
  EXPECT_THAT(first.frames, ElementsAre(1, 2));
}

TEST_F(KeptStreamTest, AnAnswerIsAwaitedUntilTheDeadlineOrTheEnd) {
  using namespace std::chrono_literals;
  const auto channel = launcher_->converse();
  EXPECT_FALSE(answered(1ms));
  const auto agents = agent_->converse();
  agents->send(frame_of(1));
  EXPECT_TRUE(answered(20s));
  const auto next = launcher_->converse();
  EXPECT_FALSE(answered(1ms)) << "the answer was one of the conversation before";
  agent_->close();
  EXPECT_FALSE(answered(20s));
  EXPECT_TRUE(next->closed());
  Heard late{launcher_->converse()};
  late.start();
  run();
  EXPECT_TRUE(late.ended) << "a conversation that begins too late hears of it";
}

}  // namespace
}  // namespace muster::net
