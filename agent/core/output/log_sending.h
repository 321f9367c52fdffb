// Decides which part of this node's log files to send next, if the launcher's log directory is not the
// agent's.
//
// LogSending adjusts how much log text is on its way, so that the launcher takes it in about kGoal: no other
// message waits longer than that behind pieces of logs. All other log text stays in the files. Pure: sizes
// and the time are passed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "common/base/clock.h"

namespace muster::agent {

class LogSending {
 public:
  static constexpr std::size_t kPieceBytes = 64 << 10;
  static constexpr std::size_t kLeastBytes = 16 << 10;  // on its way
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  static constexpr Duration kGoal = std::chrono::milliseconds(100);

  using File = std::uint64_t;
  struct Next {
    File file = 0;
    std::uint64_t offset = 0;
    std::size_t limit_bytes = 0;
  };

  // Adds a file. kAsked: do not send all of it until the launcher's answer shows that it wants the file.
  enum class Wanted { kSurely, kAsked };
  File add(Wanted wanted = Wanted::kSurely);
  // The file now has that many bytes; `all`: it is complete.
  void written(File file, std::uint64_t bytes, bool all);
  // The piece to send now; nothing if there is none, or enough is on its way.
  std::optional<Next> next() const;
  // Bytes from `offset` on have been sent. Returns whether the file has been sent to its end.
  bool sent(File file, std::uint64_t offset, std::size_t bytes, TimePoint now);
  // The file cannot be read, or is not wanted: send no more of it. Forgets a file that the launcher never
  // wanted, and returns true for it.
  bool stop(File file);
  // The launcher has the first `bytes` of the file.
  void taken(File file, std::uint64_t bytes, TimePoint now);
  // Bytes that are written, but not sent yet.
  std::uint64_t left_bytes() const;
  // True if there is nothing more to send and no answer of the launcher is missing.
  bool done() const;
  // Forgets the file if it is finished, and returns whether it did.
  bool forget(File file);

 private:
  struct State {
    std::uint64_t written = 0;
    std::uint64_t sent = 0;
    bool all_written = false;
    bool end_sent = false;
    bool stopped = false;
    bool wanted = true;
    bool wants() const { return !stopped && (sent < written || (all_written && !end_sent)); }
  };
  struct OnItsWay {
    File file = 0;
    std::uint64_t end = 0;
    std::size_t bytes = 0;
    TimePoint at;
  };

  std::map<File, State> files_;
  std::deque<OnItsWay> on_its_way_;
  std::size_t on_its_way_bytes_ = 0;
  std::size_t window_bytes_ = 2 * kPieceBytes;
  File newest_ = 0;
  File last_sent_ = 0;
};

}  // namespace muster::agent
