// A stream that serves several conversations, one after the other. In a sweep, an agent on another host takes
// part in one job after the other, and keeps its stream through the host shell.
//
// Each conversation is a separate channel. Closing it leaves the stream open. Two frames separate the
// conversations (docs/protocol.md), so that no frame reaches the conversation of another job: kJobOver is the
// agent's last frame of a job, and kNextJob is the launcher's first frame of the next job. One thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/net/asio.h"
#include "common/net/channel.h"

namespace muster::net {

class KeptStream : public std::enable_shared_from_this<KeptStream> {
 public:
  // Starts to read from `stream`.
  static std::shared_ptr<KeptStream> make(const asio::any_io_executor& executor,
                                          std::shared_ptr<Channel> stream);
  KeptStream(const KeptStream&) = delete;
  KeptStream& operator=(const KeptStream&) = delete;
  ~KeptStream() { stream_->close(); }

  // Begins the next conversation, and returns its channel. Frames that arrive early wait until the channel's
  // start() is called. When the peer sends kJobOver, the channel reports its end, and after that `on_over` is
  // called.
  std::shared_ptr<Channel> converse(std::function<void()> on_over = {});
  // Waits until the peer has sent a frame in the newest conversation. Returns true if it has. Returns false
  // if the deadline passes first, or if the stream ends.
  awaitable<bool> answered(TimePoint deadline);

  void send_job_over();
  void send_next_job(const std::vector<std::string>& words);
  // Returns the words of a message kNextJob, if the peer has sent one since the last call. Otherwise returns
  // nothing.
  std::optional<std::vector<std::string>> take_next_job();

  bool closed() const { return stream_->closed(); }
  // Closes the stream. No handler is called from now on.
  void close();

 private:
  class Conversation;
  KeptStream(const asio::any_io_executor& executor, std::shared_ptr<Channel> stream);
  void hear(wire::Frame frame);
  void end(const Error& why);
  void send(std::uint8_t type, std::string_view body);

  asio::any_io_executor executor_;
  std::shared_ptr<Channel> stream_;
  std::weak_ptr<Conversation> conversation_;  // the newest one
  std::function<void()> on_over_;             // of the newest conversation
  bool answered_ = false;                     // the newest conversation has received a frame
  asio::steady_timer heard_;                  // canceled when answered, or when the stream has ended
  std::optional<wire::Frame> next_job_;
};

}  // namespace muster::net
