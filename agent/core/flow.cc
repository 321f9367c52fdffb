#include "agent/core/flow.h"

namespace muster::agent {

bool Flow::hold(std::size_t backlog_bytes, TimePoint now) {
  if (backlog_bytes <= kLowBytes) state_ = State::kFree;
  if (state_ == State::kFree && backlog_bytes > kHighBytes) {
    state_ = State::kHolding;
    since_ = now;
  }
  if (state_ == State::kHolding && now - since_ >= kPatience) state_ = State::kDropping;
  return state_ == State::kHolding;
}

}  // namespace muster::agent
