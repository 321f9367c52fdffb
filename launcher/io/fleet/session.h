// The launcher's end of the conversation with one agent. It encodes and decodes messages, and drops frames of
// earlier attempts. It compares the agent's clock with the launcher's, and tells the agent how much of the
// agent's output the launcher has consumed.
//
// Carries messages and decides nothing. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "common/net/channel.h"
#include "common/net/time.h"
#include "common/wire/codec.h"
#include "launcher/core/fleet/clock_offset.h"
#include "launcher/io/taken.h"

namespace muster::launcher {

class Session : public std::enable_shared_from_this<Session> {
 public:
  using OnMessage = std::function<void(Attempt attempt, wire::ToLauncher message)>;
  using OnClosed = std::function<void(const Error& why)>;

  // `window_bytes` limits the output that the agent may have sent and the launcher has not yet consumed. The
  // limit is for each stream. Zero means that there is no limit.
  Session(const net::Time& time, NodeId node, std::shared_ptr<net::Channel> channel,
          std::uint64_t window_bytes = 0)
      : time_(time), node_(node), channel_(std::move(channel)), window_bytes_(window_bytes) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { close(); }
  // `on_closed` is called as in channel.h. If a message cannot be decoded, the session closes the channel,
  // and calls `on_closed` with kCorrupt.
  void start(OnMessage on_message, OnClosed on_closed);
  void send(Attempt attempt, const wire::ToAgent& message);
  void send_ping(bool output_waits, bool usage = false);
  // Call when output of the agent has arrived. Returns a function. Call this function when the output has
  // been written or thrown away.
  Taken received_output(std::int32_t stream, std::size_t bytes);
  // Call while the reader of this stream takes output, even if that is only the output of other agents. If
  // this agent waits for the reader, it gets a sign of life.
  void reassure(std::int32_t stream);
  // If there is a new measurement, returns how far the agent's clock is ahead of the launcher's.
  std::optional<ClockOffset::Answer> take_clock_answer() { return clock_offset_.take_answer(time_.now()); }
  bool wants_clock_answers() const { return clock_offset_.wants_more(); }
  // After this call, frames of earlier attempts are dropped.
  void advance_to(Attempt attempt) { dispatcher_.advance_to(attempt); }
  // Closes the channel. After this, the functions that were given to start() are not called.
  void close() { channel_->close(); }

 private:
  void hear(wire::Frame frame);
  void tell_taken(std::int32_t stream);
  struct Received {  // output of one stream, in bytes
    std::uint64_t all = 0;
    std::uint64_t taken = 0;
    std::uint64_t told = 0;
    Taken on_taken;
  };
  Received& received(std::int32_t stream) { return received_[stream == 2 ? 1 : 0]; }

  const net::Time& time_;
  NodeId node_;
  std::shared_ptr<net::Channel> channel_;
  OnMessage on_message_;
  OnClosed on_closed_;
  wire::Dispatcher dispatcher_{wire::kLauncher, node_};
  Sequence sent_;
  std::uint64_t window_bytes_;
  std::array<Received, 2> received_;  // stdout, stderr
  ClockOffset clock_offset_;
};

}  // namespace muster::launcher
