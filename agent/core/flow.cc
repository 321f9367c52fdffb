#include "agent/core/flow.h"

namespace muster::agent {

bool Flow::hold(std::size_t backlog_bytes, TimePoint now) {
  if (backlog_bytes <= kLowBytes) state_ = State::kFree;
  const bool begins = state_ == State::kFree && backlog_bytes > kHighBytes;
  if (begins) state_ = State::kHolding;
  if (begins || backlog_bytes + kProgressBytes <= since_bytes_) {
    since_ = now;
    since_bytes_ = backlog_bytes;
  }
  if (state_ == State::kHolding && now - since_ >= kPatience) state_ = State::kDropping;
  return state_ == State::kHolding;
}

}  // namespace muster::agent
