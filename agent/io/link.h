// The agent's end of the connection to its launcher: sends and receives messages over a channel.
//
// Numbers the frames that it sends, and gives them the highest term that it has received (frame.h). Passes on
// only frames that are not stale (codec.h). Output has a window, which limits how much of each stream is sent
// before the launcher confirms it. All other messages are sent at once. One thread.
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
  // From now on calls `on_message` for each message for this node that is neither repeated nor stale. Calls
  // `on_closed` when the launcher is gone or has sent something unreadable; the link is then closed.
  void start(OnMessage on_message, OnClosed on_closed);
  // Queues the message; does nothing once the connection is closed.
  void send(Attempt attempt, const wire::ToLauncher& message);
  // Sends the message with `text` instead of its own text.
  void send(Attempt attempt, const wire::Output& output, std::string_view text);
  void send(Attempt attempt, const wire::LogPiece& piece, std::string_view text);
  // True if nothing waits to be sent.
  bool idle() const { return channel_->backlog_bytes() == 0; }
  // From now on drops orders for earlier attempts.
  void advance_to(Attempt attempt) { dispatcher_.advance_to(attempt); }
  // Sets how much output can be sent before the launcher confirms it, and how long to wait for this, as
  // Welcome says.
  void set_output_limits(const wire::JobSpec& job);
  // Call with true while the workers are being stopped: they then wait only briefly for a slow launcher to
  // take their output.
  void set_hurry(bool hurry);
  void taken(const wire::OutputTaken& taken);
  // Returns whether the launcher is so far behind that the agent should not read more of this stream now.
  bool hold(std::int32_t stream);
  // Returns whether to drop lines of this stream: the launcher has not caught up in time, or crowded() is
  // true.
  bool drops(std::int32_t stream) { return (!hold(stream) && window(stream).flow.dropping()) || crowded(); }
  // Whether more than kMaxBacklogBytes wait to be sent. If so, send only messages that affect decisions about
  // the job.
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
