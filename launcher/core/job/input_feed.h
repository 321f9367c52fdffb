// The job's input on its way from the launcher's stdin to one rank: how much to read and send, and what to
// send again in the next attempt.
//
// Keeps input until the rank is known to have read it, at most 128 KiB. A restarted rank continues with the
// first kept byte. Carries bytes, decides nothing about the job. Plain values; tolerates any numbers from an
// agent.
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

  // Call when the rank has started in this attempt, before anything is sent to the rank.
  void begin(Attempt attempt);
  // Call when the rank has ended: sends and reads nothing until begin().
  void stop() { open_ = false; }
  void on(const wire::InputTaken& taken);
  // How many bytes to read from stdin now; 0: wait for another event.
  std::size_t wanted() const;
  // Adds what was read; empty: the input has ended.
  void add(std::string_view text);
  // The next message for the rank's agent, if one can be sent now.
  std::optional<wire::Input> next();
  Attempt attempt() const { return attempt_; }
  // Bytes that the ranks of earlier attempts have read.
  std::int64_t gone() const { return gone_; }
  // Bytes that were added and that no rank is known to have read.
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
  // Bytes since the attempt began: read <= written <= sent.
  std::int64_t sent_ = 0;
  std::int64_t written_ = 0;  // to the rank's pipe
  std::int64_t read_ = 0;     // by the rank
};

}  // namespace muster::launcher
