// The job's input on its way from the launcher's stdin to one rank: what may be read and sent, and what of it
// is to be sent again in the next attempt.
//
// What the rank has not read, as far as is known, is kept, 128 KiB at most: a rank that is started again goes
// on there. Carries bytes and decides nothing about the job. Plain; an agent's numbers may be any.
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

  // The rank runs in this attempt, and has been sent nothing yet.
  void begin(Attempt attempt);
  // The rank has ended: nothing is sent or read before it begins again.
  void stop() { open_ = false; }
  void on(const wire::InputTaken& taken);
  // So many bytes may be read now; zero: none before something has happened.
  std::size_t wanted() const;
  // What was read; nothing: the input has ended.
  void add(std::string_view text);
  // The next message for the rank's agent, if there is one now.
  std::optional<wire::Input> next();
  Attempt attempt() const { return attempt_; }

 private:
  std::size_t unsent() const { return kept_.size() - static_cast<std::size_t>(sent_ - read_); }
  std::size_t window() const { return wire::kInputWindowBytes - static_cast<std::size_t>(sent_ - written_); }

  Attempt attempt_;
  bool open_ = false;
  bool ended_ = false;     // the input
  bool end_sent_ = false;  // in this attempt
  std::string kept_;       // begins behind what the rank has read
  // Bytes since the attempt began: read <= written <= sent.
  std::int64_t sent_ = 0;
  std::int64_t written_ = 0;  // to the rank's pipe
  std::int64_t read_ = 0;     // by the rank
};

}  // namespace muster::launcher
