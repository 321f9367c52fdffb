#include "agent/core/output/flow.h"

#include <algorithm>

namespace muster::agent {

bool Flow::hold(std::size_t backlog_bytes, TimePoint alive_at, TimePoint now) {
  if (backlog_bytes <= high_bytes_ / 2) state_ = State::kFree;
  const bool begins = state_ == State::kFree && backlog_bytes > high_bytes_;
  if (begins) state_ = State::kHolding;
  if (begins || backlog_bytes + kProgressBytes <= since_bytes_) {
    since_ = now;
    since_bytes_ = backlog_bytes;
  }
  const TimePoint until = hurry_ ? since_ + patience_ : alive_at + stall_;
  if (state_ == State::kHolding && now >= until) state_ = State::kDropping;
  return state_ == State::kHolding;
}

}  // namespace muster::agent
