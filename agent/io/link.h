// The agent's side of the conversation with its launcher: messages over a connection.
//
// Numbers what is sent, answers with the highest term that was heard, and hands on only what is current.
// Output has a window of its own: so much of each stream may be on its way that the launcher has not called
// taken; everything else is sent at once. One thread.
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
  // Messages for this node that are neither repeated nor stale are told from now on, and at last that the
  // launcher is gone, or has sent what cannot be understood; the link is closed then.
  void start(OnMessage on_message, OnClosed on_closed);
  // Queued; ignored once the connection is closed.
  void send(Attempt attempt, const wire::ToLauncher& message);
  // Output, with this text instead of its own.
  void send(Attempt attempt, const wire::Output& output, std::string_view text);
  // Orders for earlier attempts are dropped from now on.
  void advance_to(Attempt attempt) { dispatcher_.advance_to(attempt); }
  // How much output may be on its way, and how long the launcher is waited for: from Welcome on.
  void set_output_limits(const wire::JobSpec& job);
  // The workers are to end: their output does not wait for a launcher that is slow.
  void set_hurry(bool hurry);
  void taken(const wire::OutputTaken& taken);
  // The launcher is behind, and is worth waiting for: more of this stream should not be read now.
  bool hold(std::int32_t stream);
  // The launcher was waited for in vain: lines of this stream are to be left out.
  bool drops(std::int32_t stream) { return (!hold(stream) && window(stream).flow.dropping()) || crowded(); }
  // The launcher does not keep up at all: only what decides about the job should still be sent.
  bool crowded() const { return channel_->backlog_bytes() > kMaxBacklogBytes; }
  void close() { channel_->close(); }
  bool closed() const { return channel_->closed(); }

 private:
  void hear(const wire::Frame& frame);
  wire::FrameHeader next_header(Attempt attempt);

  struct Window {  // of one stream
    Flow flow{0, Duration::zero()};
    std::uint64_t sent_bytes = 0;
    std::uint64_t taken_bytes = 0;
    TimePoint alive_at{};  // when the launcher took something, or might have been sent more
  };
  Window& window(std::int32_t stream) { return windows_[stream == 2 ? 1 : 0]; }

  const net::Time& time_;
  std::shared_ptr<net::Channel> channel_;
  OnMessage on_message_;
  OnClosed on_closed_;
  NodeId own_;
  wire::Dispatcher dispatcher_{own_, wire::kLauncher};
  std::array<Window, 2> windows_;     // stdout, stderr
  std::int32_t hurried_streams_ = 0;  // whatever happens: those that go to a terminal
  Term sent_term_;
  Sequence sent_;
};

}  // namespace muster::agent
