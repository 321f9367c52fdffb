// The agent's end of the connection to its launcher. It sends and receives messages over a channel.
//
// Link numbers the frames that it sends, and gives them the highest term that it has received (frame.h). It
// passes on only those frames that are not stale (codec.h). Output is limited by a window: only so much of
// each stream is sent before the launcher confirms it. All other messages are sent at once. One thread.
#pragma once

#include <array>
#include <memory>

#include "agent/core/output/flow.h"
#include "common/net/channel.h"
#include "common/net/time.h"
#include "common/wire/codec.h"

namespace muster::agent {

class Link {
 public:
  static constexpr std::size_t kMaxBacklogBytes = std::size_t{32} << 20;

  struct Incoming {
    Attempt attempt;
    wire::ToAgent message;
  };

  using OnMessage = std::function<void(const Incoming& incoming)>;
  using OnClosed = std::function<void(const Error& why)>;

  Link(const net::Time& time, std::shared_ptr<net::Channel> channel, NodeId own)
      : time_(time), channel_(std::move(channel)), own_(own) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() { close(); }
  // From now on `on_message` is called for each message to this node. Repeated and stale messages are left
  // out. If the launcher is gone or has sent something unreadable, the link closes, and `on_closed` is
  // called.
  void start(OnMessage on_message, OnClosed on_closed);
  // Queues the message. If the connection is closed, does nothing.
  void send(Attempt attempt, const wire::ToLauncher& message);
  // Sends the message, but with `text` in place of the message's own text.
  void send(Attempt attempt, const wire::Output& output, std::string_view text);
  void send(Attempt attempt, const wire::LogPiece& piece, std::string_view text);
  // True if nothing waits to be sent.
  bool idle() const { return channel_->backlog_bytes() == 0; }
  // From now on the link drops orders for earlier attempts.
  void advance_to(Attempt attempt) { dispatcher_.advance_to(attempt); }
  // Takes the limits of output from the job: how much output can be sent before the launcher confirms it, and
  // how long to wait for that.
  void set_output_limits(const wire::JobSpec& job);
  // Call this with true while the workers are being stopped. They then wait only briefly for a launcher that
  // takes their output slowly.
  void set_hurry(bool hurry);
  void taken(const wire::OutputTaken& taken);
  // Returns whether the launcher is so far behind that the agent should not read more of this stream now.
  bool hold(std::int32_t stream);
  // Returns whether lines of this stream are dropped. That is so if the launcher has not caught up in time,
  // or if crowded() is true.
  bool drops(std::int32_t stream) { return (!hold(stream) && window(stream).flow.dropping()) || crowded(); }
  // Returns whether more than kMaxBacklogBytes wait to be sent. If so, the agent should only send messages
  // that affect decisions about the job.
  bool crowded() const { return channel_->backlog_bytes() > kMaxBacklogBytes; }
  void close() { channel_->close(); }
  bool closed() const { return channel_->closed(); }

 private:
  void hear(const wire::Frame& frame);
  void ended(const Error& why);
  wire::FrameHeader next_header(Attempt attempt);

  struct Window {  // of one stream
    Flow flow{0, Duration::zero()};
    std::uint64_t sent_bytes = 0;
    std::uint64_t taken_bytes = 0;
    TimePoint alive_at{};  // when the launcher last took something, or the window last had room for more
  };
  Window& window(std::int32_t stream) { return windows_[stream == 2 ? 1 : 0]; }

  const net::Time& time_;
  std::shared_ptr<net::Channel> channel_;
  OnMessage on_message_;
  OnClosed on_closed_;
  NodeId own_;
  wire::Dispatcher dispatcher_{own_, wire::kLauncher};
  std::array<Window, 2> windows_;     // stdout, stderr
  std::int32_t hurried_streams_ = 0;  // always in a hurry: 1 (stdout), 2 (stderr) or 3 (both)
  Term sent_term_;
  Sequence sent_;
};

}  // namespace muster::agent
