// The runtime's half of a warm start. The agent executes a process as a template. The template waits here for
// the agent's orders, and forks one worker for each order. In the worker, serve_as_template() returns.
//
// A worker's parent is the agent, not the template (CLONE_PARENT). So pidfd, exit status and parent-death
// signal work as for a worker that the agent executes. This code does not use torch, because the launcher's
// tests and the Python runner use it too. Only the main thread may call it.
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
  kForkedWithArguments,  // as kForked, and the worker has arguments of its own
};

// If the process is not a template, this function returns at once. In a template, this function forks workers
// for the agent. When the agent is gone, it ends the template, so it never returns in the template process.
// But it returns in each worker that it has forked. A worker can have other arguments than the template. Then
// `arguments` gets the words that follow the program's name. If `arguments` is null, the agent executes such
// a worker instead of asking for a fork.
Serving serve_as_template(const ForkHooks& hooks = {}, std::vector<std::string>* arguments = nullptr);

}  // namespace muster::warm
