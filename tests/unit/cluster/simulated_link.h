// A connection between the launcher and one agent: real frames, delayed, in order, until it closes or falls
// silent.
//
// Each side is an Endpoint: it encodes what it sends, and hears what its dispatcher lets pass. A side that is
// destroyed hears nothing more; the other learns of it only when somebody calls close().
#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/codec.h"
#include "tests/unit/cluster/timeline.h"

namespace muster::simulation {

// One direction.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(Timeline& timeline) : timeline_(timeline) {}
  std::function<void(const std::string& bytes)> on_bytes;
  std::function<void()> on_end;  // after all that was sent

  void send(std::string bytes) {
    if (open_)
      deliver([this, bytes = std::move(bytes)] {
        if (on_bytes) on_bytes(bytes);
      });
  }
  void close() {
    if (std::exchange(open_, false))
      deliver([this] {
        if (on_end) on_end();
      });
  }
  // From now on, nothing arrives, not even its end.
  void fall_silent() { silent_ = true; }
  void forget_receiver() { on_bytes = nullptr, on_end = nullptr; }

 private:
  void deliver(std::function<void()> what) {
    using namespace std::chrono_literals;
    last_arrival_ = std::max(timeline_.now() + timeline_.between(50us, 5ms), last_arrival_ + 1ns);
    timeline_.at(last_arrival_, [self = shared_from_this(), what = std::move(what)] {
      if (!self->silent_) what();
    });
  }

  Timeline& timeline_;
  TimePoint last_arrival_;
  bool open_ = true;
  bool silent_ = false;
};

inline Expected<wire::ToAgent> decode(const wire::Frame& frame, const wire::ToAgent*) {
  return wire::decode_for_agent(frame);
}
inline Expected<wire::ToLauncher> decode(const wire::Frame& frame, const wire::ToLauncher*) {
  return wire::decode_for_launcher(frame);
}

template <class Out, class In>
class Endpoint {
 public:
  Endpoint(std::shared_ptr<Stream> out, NodeId own, NodeId peer)
      : out_(std::move(out)), own_(own), peer_(peer) {}
  void send(Attempt attempt, const Out& message) {
    sent_ = sent_.next();
    out_->send(wire::encode(
        {.destination = peer_, .source = own_, .term = Term(1), .attempt = attempt, .sequence = sent_},
        message));
  }
  // What the bytes say, but for what is stale.
  std::vector<std::pair<Attempt, In>> receive(const std::string& bytes) {
    std::vector<wire::Frame> frames;
    EXPECT_TRUE(reader_.feed(bytes, frames));
    std::vector<std::pair<Attempt, In>> messages;
    for (const wire::Frame& frame : frames) {
      if (dispatcher_.judge(frame.header) != wire::Dispatcher::Verdict::kDeliver) continue;
      auto message = decode(frame, static_cast<const In*>(nullptr));
      EXPECT_TRUE(message) << message.error().message();
      if (message) messages.emplace_back(frame.header.attempt, *std::move(message));
    }
    return messages;
  }
  void advance_to(Attempt attempt) { dispatcher_.advance_to(attempt); }
  void close() { out_->close(); }

 private:
  std::shared_ptr<Stream> out_;
  NodeId own_;
  NodeId peer_;
  wire::FrameReader reader_;
  wire::Dispatcher dispatcher_{own_, peer_};
  Sequence sent_;
};
using LauncherEnd = Endpoint<wire::ToAgent, wire::ToLauncher>;
using AgentEnd = Endpoint<wire::ToLauncher, wire::ToAgent>;

}  // namespace muster::simulation
