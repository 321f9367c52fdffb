// Decides which part of this node's log files to send to the launcher next. Used if the launcher does not see
// the agent's log directory.
//
// LogSending limits how much log text has been sent without the launcher's answer. It adjusts this limit so
// that an answer takes about kGoal: then no other message waits longer than kGoal behind log text. Pure:
// sizes and the time are passed in.
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
  static constexpr std::size_t kLeastBytes = 16 << 10;  // the lowest limit
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  static constexpr Duration kGoal = std::chrono::milliseconds(100);

  using File = std::uint64_t;
  struct Next {
    File file = 0;
    std::uint64_t offset = 0;
    std::size_t limit_bytes = 0;
  };

  // Adds a file. kAsked: the launcher may not want the file; its first answer decides.
  enum class Wanted { kSurely, kAsked };
  File add(Wanted wanted = Wanted::kSurely);
  // Call when the file has grown to that many bytes. `all`: the file is complete.
  void written(File file, std::uint64_t bytes, bool all);
  // Returns the piece to send now. Returns nothing if all is sent, or if enough is on its way.
  std::optional<Next> next() const;
  // Call when these bytes, which begin at `offset`, have been sent. Returns whether the complete file has
  // been sent.
  bool sent(File file, std::uint64_t offset, std::size_t bytes, TimePoint now);
  // Call if the file cannot be read, or is not wanted: next() returns no more of it. If the launcher has
  // never said that it wants a kAsked file, also forgets the file and returns true.
  bool stop(File file);
  // Call when the launcher has answered that it has the first `bytes` bytes of the file.
  void taken(File file, std::uint64_t bytes, TimePoint now);
  // Returns how many bytes of wanted files are written, but not sent yet.
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
