// Converts messages to frames and back, and decides which frames of a connection are stale.
//
// Plain values; one thread at a time. Only this file decides what a frame's type means.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/wire/frame.h"
#include "common/wire/messages.h"

namespace muster::wire {

// Returns the frame's bytes, ready to be sent. The message determines `header.type`.
std::string encode(FrameHeader header, const ToAgent& message);
std::string encode(FrameHeader header, const ToLauncher& message);
std::string encode(FrameHeader header, const ToNeighbour& message);

// Returns the frame of a message up to its text. The caller sends `text` after it; the message's own text is
// empty. So the texts of output and logs, which are most of the traffic, are not copied.
std::string encode_before_text(FrameHeader header, const Output& output, std::string_view text);
std::string encode_before_text(FrameHeader header, const LogPiece& piece, std::string_view text);
std::string encode_before_text(FrameHeader header, const SlotPart& part, std::string_view text);

// Return kCorrupt if the type is unknown, a required field is missing, a field has another type, or the
// message could not be encoded again. Other missing fields get their defaults; unknown fields are ignored.
Expected<ToAgent> decode_for_agent(Frame frame);
Expected<ToLauncher> decode_for_launcher(Frame frame);
Expected<ToNeighbour> decode_for_neighbour(Frame frame);

// Returns whether the message is about the attempt whose number its frame carries. False for output, logs,
// and messages about the connection.
bool belongs_to_attempt(const ToLauncher& message);

// Decides which frames of one connection to deliver. Drops a frame if it is for another node, its source is
// not the peer, its sequence number was seen before, its term is lower than the highest seen, or it belongs
// to an earlier attempt.
class Dispatcher {
 public:
  enum class Result { kDeliver, kOtherNode, kStranger, kRepeated, kStaleTerm, kStaleAttempt };
  // `own`: this end, a node or kLauncher. Frames must have `own` as their destination and `peer` as their
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
