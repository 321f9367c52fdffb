// The runtime's half of a warm start: a process that the agent executed as a template waits here for orders
// and forks one worker for each; in a worker the call returns.
//
// The agent is the parent of every worker from its first instruction (CLONE_PARENT), so that pidfd, exit
// status and parent-death signal are as of an executed one. Without torch: the launcher's tests and the
// Python runner use it too. Main thread only.
#pragma once

namespace muster::warm {

// Called around each fork, by a language that has to know of it. Any may be null.
struct ForkHooks {
  void (*before)() = nullptr;
  void (*in_parent)() = nullptr;
  void (*in_child)() = nullptr;
};

// False at once in a process that is no template. In a template never returns: it forks until the agent is
// gone. True in a worker: its environment, streams, group and files are its own, as in an executed one.
bool serve_as_template(const ForkHooks& hooks = {});

}  // namespace muster::warm
