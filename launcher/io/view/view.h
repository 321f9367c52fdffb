// The seam to the people: what they are shown of a job, and what is kept for them.
//
// Nothing here waits. What is made of it (a terminal's lines, events.jsonl, launcher.log, answers to `launch
// dump`) is the view's. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "launcher/core/job/job_events.h"

namespace muster::launcher {

class View {
 public:
  // Hears that so many bytes of a worker's output need not be kept any more.
  using Taken = std::shared_ptr<const std::function<void(std::size_t bytes)>>;
  virtual ~View() = default;

  // Whatever was decided, `age` after the launch: a Tell is said, a Record kept as an event, the rest
  // journaled with its reason.
  virtual void show(const Decision& decision, Attempt attempt, Duration age) = 0;
  // Takes the place of what was shown so before; empty: that is gone.
  virtual void show_progress(std::string_view text) = 0;
  // `taken` hears of the bytes once they have been taken, or at once where nobody is waited for.
  virtual void show_output(NodeId node, const wire::Output& output, Taken taken) = 0;
  // Whether a stream of the workers' was taken in the last `period`; `stream` 1 is stdout, 2 stderr.
  virtual bool takes(int stream, Duration period) const = 0;
  virtual void show_stacks(const wire::WorkerStacks& stacks) = 0;
};

}  // namespace muster::launcher
