// The job's input on its way from the launcher's stdin to one rank. This class says how much to read and to
// send, and which part to send again in the next attempt.
//
// Keeps input until the rank is known to have read it, at most 128 KiB. A restarted rank continues with the
// first byte that is still kept. This class carries bytes, and decides nothing about the job. Plain values.
// An agent can send any numbers without doing harm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/wire/messages.h"

namespace muster::launcher {

class InputFeed {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{16} << 10;
  static constexpr std::size_t kMostKeptBytes = 2 * wire::kInputWindowBytes;

  // Call when the rank has started in this attempt, and nothing has been sent to it yet.
  void begin(Attempt attempt);
  // Call when the rank has ended. After this, nothing is sent to the rank and nothing is read from stdin,
  // until begin() is called.
  void stop() { open_ = false; }
  void on(const wire::InputTaken& taken);
  // Returns how many bytes to read from stdin now. If it is 0, wait for another event.
  std::size_t wanted() const;
  // Adds text that was read from stdin. An empty text says that the input has ended.
  void add(std::string_view text);
  // If a message can be sent now, returns the next one for the rank's agent.
  std::optional<wire::Input> next();
  Attempt attempt() const { return attempt_; }
  // Returns how many bytes the ranks of earlier attempts have read.
  std::int64_t gone() const { return gone_; }
  // Returns how many bytes of the input are kept because no rank has confirmed yet that it has read them.
  std::size_t unread() const { return kept_.size(); }

 private:
  std::size_t unsent() const { return kept_.size() - static_cast<std::size_t>(sent_ - read_); }
  std::size_t window() const { return wire::kInputWindowBytes - static_cast<std::size_t>(sent_ - written_); }

  Attempt attempt_;
  bool open_ = false;
  std::int64_t gone_ = 0;
  bool ended_ = false;     // the input
  bool end_sent_ = false;  // in this attempt
  std::string kept_;       // starts after the last byte that the rank has read
  // Counted in bytes since the attempt began. It is always true that read <= written <= sent.
  std::int64_t sent_ = 0;
  std::int64_t written_ = 0;  // to the rank's pipe
  std::int64_t read_ = 0;     // by the rank
};

}  // namespace muster::launcher
