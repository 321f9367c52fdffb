// The runtime's half of a warm start. A process that the agent executed as a template waits here for orders
// and forks one worker for each; in the worker the call returns.
//
// The agent is the parent of every worker from its first instruction (CLONE_PARENT), so pidfd, exit status
// and parent-death signal work as for an executed worker. This code does not use torch, because the
// launcher's tests and the Python runner use it too. Main thread only.
#pragma once

#include <string>
#include <vector>

namespace muster::warm {

// Functions to call around each fork, for languages whose runtime must know about a fork. Each can be null.
struct ForkHooks {
  void (*before)() = nullptr;
  void (*in_parent)() = nullptr;
  void (*in_child)() = nullptr;
};

enum class Serving {
  kNoTemplate = 0,  // the process is not a template
  kForked,  // this is a worker, which has its own environment, streams, group and files, like an executed one
  kForkedWithArguments,  // and it has arguments of its own
};

// Returns at once if the process is not a template. In a template it never returns: it forks until the agent
// is gone. `arguments` gets the words that follow the program's name in a worker whose arguments are not the
// template's; without it, the agent executes such workers.
Serving serve_as_template(const ForkHooks& hooks = {}, std::vector<std::string>* arguments = nullptr);

}  // namespace muster::warm
