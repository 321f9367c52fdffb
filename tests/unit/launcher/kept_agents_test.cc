// RemoteBootstrap with agents that stay: they serve one job after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/launcher/remote_bootstrap_fixture.h"

namespace muster::launcher {
namespace {

class KeptAgentsTest : public RemoteBootstrapTest {
 protected:
  ~KeptAgentsTest() override {
    if (hosts_ != nullptr) close();
    kept_.close();
    run_until([this] { return kept_.idle(); });
  }
  void begin_job(const char* job) {
    if (hosts_ != nullptr) close();
    plan_.job.job_id = job;
    channels_.clear();
    ends_.clear();
    begin(Calls::kLater, &kept_);
  }
  static std::string frame_of(std::uint8_t type) {
    wire::FrameHeader header;
    header.type = type;
    std::string bytes;
    wire::append_frame(bytes, header, "\xf6");
    return bytes;
  }
  // An agent has served a job.
  FakeHostShell& leave() {
    begin_job("first");
    FakeHostShell& shell = connect(kAgent);
    EXPECT_THAT(hosts_->starts.back().arguments, testing::Contains("--stays"));
    read_ = shell.input().size();
    shell.send(frame_of(wire::kJobOver));
    EXPECT_EQ(only_end().how, "its agent has left");
    begin_job("second");
    return shell;
  }
  // The words of the next job that this agent has got.
  std::vector<std::string> next_job(FakeHostShell& shell) const {
    wire::FrameReader reader;
    std::vector<wire::Frame> frames;
    EXPECT_TRUE(reader.feed(std::string_view(shell.input()).substr(read_), frames));
    EXPECT_EQ(frames.size(), 1U);
    if (frames.empty()) return {};
    EXPECT_EQ(frames[0].header.type, wire::kNextJob);
    return nlohmann::json::from_cbor(frames[0].body.view()).get<std::vector<std::string>>();
  }

  KeptAgents kept_{io_.get_executor()};
  std::size_t read_ = 0;
};

TEST_F(KeptAgentsTest, AnAgentThatHasLeftAJobServesTheNextOneOnItsHost) {
  FakeHostShell& shell = leave();
  bootstrap_->start(kAgent);
  start(kElsewhere);
  EXPECT_EQ(hosts_->starts.size(), 1U) << "nobody waits on the other host";
  EXPECT_THAT(next_job(shell), testing::IsSupersetOf({"--stays", "second/default/0/1"}));
  EXPECT_THAT(channels_, IsEmpty()) << "it has not answered";
  shell.send(frame_of(wire::kFirstToLauncher));
  settle();
  ASSERT_TRUE(channels_.contains(kAgent));
  std::vector<std::uint8_t> heard;
  channels_[kAgent]->start([&heard](const wire::Frame& frame) { heard.push_back(frame.header.type); },
                           [](const Error&) {});
  settle();
  EXPECT_THAT(heard, ElementsAre(wire::kFirstToLauncher));
}

TEST_F(KeptAgentsTest, AnAgentThatIsLostAsItGetsAJobIsReplacedByOneWithAnotherKey) {
  plan_.control = Control::kAuto;
  FakeHostShell& shell = leave();
  bootstrap_->start(kAgent);
  run_until([&] { return shell.input().size() > read_; });
  const std::string key = next_job(shell).at(0);
  shell.end(137);
  settle();
  ASSERT_EQ(hosts_->starts.size(), 1U);
  const std::string other = hosts_->starts[0].shell->input().substr(0, 64);
  EXPECT_TRUE(net::key_from_hex(key) && net::key_from_hex(other));
  EXPECT_NE(key, other);
  EXPECT_THAT(ends_, IsEmpty()) << "the job does not notice";
  greet(*hosts_->starts[0].shell, "control stdio");
  EXPECT_TRUE(channels_.contains(kAgent));
}

TEST_F(KeptAgentsTest, AnAgentThatWasKilledDoesNotComeBackAndNoSuccessorStays) {
  begin_job("first");
  FakeHostShell& shell = connect(kAgent);
  hosts_->hold();
  bootstrap_->kill(kAgent);
  shell.send(frame_of(wire::kJobOver));
  settle();
  EXPECT_THAT(ends_, IsEmpty()) << "it is being killed";
  hosts_->release();
  EXPECT_EQ(only_end().how, "its agent was killed");
  start(kSuccessor);
  EXPECT_THAT(hosts_->starts.back().arguments, testing::Not(testing::Contains("--stays")));
}

}  // namespace
}  // namespace muster::launcher
