// What is sent next of this node's log files, where the launcher's log directory is another one than the
// agent's.
//
// So much may be on its way that the launcher takes it in about kGoal: whatever else is to be sent then waits
// no longer for a piece of a log. What is not on its way lies in the files, and nowhere else. Pure: sizes and
// the time are passed in.
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

  // A file that nothing is known of yet. kAsked: the launcher must show that it wants it.
  enum class Wanted { kSurely, kAsked };
  File add(Wanted wanted = Wanted::kSurely);
  // So much lies in the file; `all`: nothing more will.
  void written(File file, std::uint64_t bytes, bool all);
  // The piece to send now; nothing if there is none, or enough is on its way.
  std::optional<Next> next() const;
  // Bytes from `offset` on have been sent. Returns whether the file has been sent to its end.
  bool sent(File file, std::uint64_t offset, std::size_t bytes, TimePoint now);
  // The file cannot be read, or is not wanted: no more of it is sent. One that never was wanted is forgotten:
  // returns whether it is.
  bool stop(File file);
  // The launcher has so much of the file.
  void taken(File file, std::uint64_t bytes, TimePoint now);
  // Written, and not sent.
  std::uint64_t left_bytes() const;
  // Nothing more is to be sent, or waits for the launcher's answer.
  bool done() const;
  // Whether the file needs no more attention, and is forgotten.
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
