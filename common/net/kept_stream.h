// A stream that outlives its conversations: the agents of a sweep on other hosts take part in one job after
// the other, and keep the stream through their host shell.
//
// Each conversation is a channel of its own; closing the channel leaves the stream open. Two frames of the
// stream itself divide the conversations (docs/protocol.md): kJobOver, the agent's last frame of a job, and
// kNextJob, the launcher's first frame of the next one. So no frame reaches the conversation of another job.
// One thread.
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
  // Reads from `stream` at once.
  static std::shared_ptr<KeptStream> make(const asio::any_io_executor& executor,
                                          std::shared_ptr<Channel> stream);
  KeptStream(const KeptStream&) = delete;
  KeptStream& operator=(const KeptStream&) = delete;
  ~KeptStream() { stream_->close(); }

  // Returns the channel of the next conversation. Frames that come before its start() wait for it. When the
  // peer ends the conversation by kJobOver, the channel reports its end, and then `on_over` is called.
  std::shared_ptr<Channel> converse(std::function<void()> on_over = {});
  // Waits until the peer has said something in the newest conversation. False: it has not until the deadline,
  // or the stream has ended.
  awaitable<bool> answered(TimePoint deadline);

  void send_job_over();
  void send_next_job(const std::vector<std::string>& words);
  // The words of the peer's kNextJob, once.
  std::optional<std::vector<std::string>> take_next_job();

  bool closed() const { return stream_->closed(); }
  // Closes the stream, and calls nobody from now on.
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
  bool answered_ = false;                     // the newest conversation has got a frame
  asio::steady_timer heard_;                  // cancelled when that changes, or when the stream has ended
  std::optional<wire::Frame> next_job_;
};

}  // namespace muster::net
