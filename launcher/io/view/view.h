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

  // Every decision, `age` after the launch. A Tell is a line for the user, a Record one of events.jsonl; all
  // else is kept with its reason.
  virtual void show(const Decision& decision, Duration age) = 0;
  // The line takes the place of the one that was shown so before; an empty one only removes that.
  virtual void show_progress(std::string_view text) = 0;
  // `taken` hears of the output's bytes once its reader has taken them, or at once where no reader is waited
  // for.
  virtual void show_output(NodeId node, const wire::Output& output, Taken taken) = 0;
  // Whether a stream of the workers' was taken in the last `period`; `stream` 1 is stdout, 2 stderr.
  virtual bool takes(int stream, Duration period) const = 0;
  virtual void show_stacks(const wire::WorkerStacks& stacks) = 0;
};

}  // namespace muster::launcher
