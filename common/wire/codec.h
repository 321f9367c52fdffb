// Messages to frames and back, and which frames of a connection are stale.
//
// Plain values; one thread at a time. What a frame's type means is decided here alone.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/wire/frame.h"
#include "common/wire/messages.h"

namespace muster::wire {

// The frame's bytes, ready to be sent. `header.type` is set by the message.
std::string encode(FrameHeader header, const ToAgent& message);
std::string encode(FrameHeader header, const ToLauncher& message);
std::string encode(FrameHeader header, const ToNeighbour& message);

// The frame of a message up to its text, where `text` follows as it is; the text of the message is empty.
// Output and logs are the bulk of all traffic, and are sent without being copied.
std::string encode_before_text(FrameHeader header, const Output& output, std::string_view text);
std::string encode_before_text(FrameHeader header, const LogPiece& piece, std::string_view text);
std::string encode_before_text(FrameHeader header, const SlotPart& part, std::string_view text);

// kCorrupt if the type is unknown, a required field is missing, one has another type, or the message might
// not be encoded again. Other fields that are missing have their defaults; unknown ones are ignored.
Expected<ToAgent> decode_for_agent(Frame frame);
Expected<ToLauncher> decode_for_launcher(Frame frame);
Expected<ToNeighbour> decode_for_neighbour(Frame frame);

// Whether the message is about the attempt whose number its frame carries. Output, logs and what belongs to
// the connection are not.
bool belongs_to_attempt(const ToLauncher& message);

// Decides which frames of one connection are heard. A frame is dropped when it is for another node, when its
// source is not the other end, when it repeats a sequence number, when its term is lower than the highest
// seen, or when it belongs to an attempt that is over.
class Dispatcher {
 public:
  enum class Result { kDeliver, kOtherNode, kStranger, kRepeated, kStaleTerm, kStaleAttempt };
  // `own`: this end, a node or kLauncher, for which frames must be. `peer`: the other end, from which.
  Dispatcher(NodeId own, NodeId peer) : own_(own), peer_(peer) {}
  Result judge(const FrameHeader& header);
  // Frames of earlier attempts are dropped from now on.
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
