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

// Returns the beginning of a frame, up to the text of the message. The caller then sends `text`. In this way
// the texts of output and logs, which are most of the traffic, are not copied. The text in the message itself
// must be empty.
std::string encode_before_text(FrameHeader header, const Output& output, std::string_view text);
std::string encode_before_text(FrameHeader header, const LogPiece& piece, std::string_view text);
std::string encode_before_text(FrameHeader header, const SlotPart& part, std::string_view text);

// Each of these functions returns kCorrupt in these cases: the type of the frame is unknown; a required field
// is missing; a field has another type; the message is too long to be encoded again. If any other field is
// missing, it gets its default. Unknown fields are ignored.
Expected<ToAgent> decode_for_agent(Frame frame);
Expected<ToLauncher> decode_for_launcher(Frame frame);
Expected<ToNeighbour> decode_for_neighbour(Frame frame);

// Returns whether the message is dropped if a later attempt has begun. Returns false for output, for logs,
// and for messages about the connection.
bool belongs_to_attempt(const ToLauncher& message);

// Decides which frames of one connection are delivered. A frame is dropped in these cases:
// - It is for another node, or it does not come from the peer.
// - Its sequence number is not higher than the last one.
// - Its term is lower than the highest term so far.
// - It belongs to an earlier attempt.
class Dispatcher {
 public:
  enum class Result { kDeliver, kOtherNode, kStranger, kRepeated, kStaleTerm, kStaleAttempt };
  // `own` is the node of this side, or kLauncher. Frames for other nodes than `own`, and frames that do not
  // come from `peer`, are dropped.
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
