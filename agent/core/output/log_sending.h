// Decides which part of this node's log files is sent to the launcher next. It is used only if the launcher
// does not see the agent's log directory.
//
// Some log text has been sent and not answered by the launcher yet. LogSending limits how much that is, in
// such a way that an answer takes about kGoal. Then no other message has to wait behind log text for longer
// than kGoal. Pure: sizes and the time are passed in.
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

  // Adds a file. kSurely: the launcher wants the file. kAsked: the launcher may not want it, and says so in
  // its first answer.
  enum class Wanted { kSurely, kAsked };
  File add(Wanted wanted = Wanted::kSurely);
  // Call this when the file has grown to `bytes` bytes. `all` says that the file is complete.
  void written(File file, std::uint64_t bytes, bool all);
  // Returns the piece to send now. Returns nothing if everything has been sent, or if the next piece has to
  // wait, because too much of what was sent has no answer yet.
  std::optional<Next> next() const;
  // Call this when these bytes have been sent; they begin at `offset`. Returns whether the complete file has
  // been sent.
  bool sent(File file, std::uint64_t offset, std::size_t bytes, TimePoint now);
  // Call this if the file cannot be read, or if the launcher does not want it. From then on next() returns no
  // more pieces of it. If the launcher was asked whether it wants the file (kAsked) and has never said yes,
  // this function also forgets the file, and returns true.
  bool stop(File file);
  // Call this when the launcher has answered that it has the first `bytes` bytes of the file.
  void taken(File file, std::uint64_t bytes, TimePoint now);
  // Returns how many bytes are written but not sent yet. Only files that the launcher wants count.
  std::uint64_t left_bytes() const;
  // Returns true if there is nothing more to send, and the launcher has answered everything.
  bool done() const;
  // If everything about the file is finished, forgets the file and returns true. Otherwise returns false.
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
