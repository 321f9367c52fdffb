#include "agent/core/node/worker.h"

#include "common/base/check.h"

namespace muster::agent {

WorkerEffect Worker::on(WorkerEvent event) {
  const auto state = static_cast<std::size_t>(state_);
  const auto column = static_cast<std::size_t>(event);
  const WorkerTransition& transition = kWorkerTable.at(state).at(column);
  CHECK(transition.possible, "event {} in state {} of worker {}", column, state, pid_);
  state_ = transition.next;
  if (transition.effect != WorkerEffect::kNone) stop_requested_ = true;
  return transition.effect;
}

void Worker::started(std::int32_t pid) {
  on(WorkerEvent::kStarted);
  pid_ = pid;
}

}  // namespace muster::agent
