// Converts messages to frames and back, and decides which frames of a connection are stale.
//
// Only this file knows what a frame's type means. Plain values; one thread at a time.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/wire/frame.h"
#include "common/wire/messages.h"

namespace muster::wire {

// Returns the bytes of a frame with this message. The message determines `header.type`.
std::string encode(FrameHeader header, const ToAgent& message);
std::string encode(FrameHeader header, const ToLauncher& message);
std::string encode(FrameHeader header, const ToNeighbour& message);

// Returns the beginning of a frame, up to the message's text. The caller sends `text` after it, so that the
// texts of output and logs, which are most of the traffic, are not copied. The message's own text must be
// empty.
std::string encode_before_text(FrameHeader header, const Output& output, std::string_view text);
std::string encode_before_text(FrameHeader header, const LogPiece& piece, std::string_view text);
std::string encode_before_text(FrameHeader header, const SlotPart& part, std::string_view text);

// These functions return kCorrupt if the frame's type is unknown, if a required field is missing, if a field
// has another type, or if the message is too long to be encoded again. Other missing fields get their
// defaults. Unknown fields are ignored.
Expected<ToAgent> decode_for_agent(Frame frame);
Expected<ToLauncher> decode_for_launcher(Frame frame);
Expected<ToNeighbour> decode_for_neighbour(Frame frame);

// Returns whether the message is dropped when a later attempt has begun. False for output, logs, and messages
// about the connection.
bool belongs_to_attempt(const ToLauncher& message);

// Decides which frames of one connection to deliver. Drops a frame in these cases:
// - It is for another node, or its source is not the peer.
// - Its sequence number is not higher than the last one.
// - Its term is lower than the highest one seen.
// - It belongs to an earlier attempt.
class Dispatcher {
 public:
  enum class Result { kDeliver, kOtherNode, kStranger, kRepeated, kStaleTerm, kStaleAttempt };
  // `own`: this side, a node or kLauncher. Frames must have `own` as their destination and `peer` as their
  // source.
  Dispatcher(NodeId own, NodeId peer) : own_(own), peer_(peer) {}
  Result judge(const FrameHeader& header);
  // From now on drops frames of earlier attempts.
  void advance_to(Attempt attempt) { attempt_ = attempt; }
  Term term() const { return term_; }

 private:
  NodeId own_;
  NodeId peer_;
  Term term_;
  Attempt attempt_;
  Sequence newest_;
};

}  // namespace muster::wire
