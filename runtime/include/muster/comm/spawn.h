// Runs a function as all ranks of a small world on this machine: torch's mp.spawn for C++.
//
// spawn() forks, so call it before anything that starts threads. Most torch operations start threads. Each
// child has its own Job; the children communicate over loopback.
#pragma once

#include <functional>
#include <muster/comm/job.h>
#include <stdexcept>
#include <string>

namespace muster {

// A rank of the spawned world has failed. The error describes the rank that failed first.
class SpawnError : public std::runtime_error {
 public:
  SpawnError(const std::string& message, int rank, int exit_code, int signal)
      : std::runtime_error(message), rank_(rank), exit_code_(exit_code), signal_(signal) {}
  int rank() const { return rank_; }
  int exit_code() const { return exit_code_; }  // -1 if a signal ended it
  int signal() const { return signal_; }        // 0 if no signal ended it

 private:
  int rank_, exit_code_, signal_;
};

// Forks nprocs processes, runs function(job) in each, and returns when all have ended without an error. If a
// child throws, exits with a code other than 0 or is killed, spawn() sends SIGTERM to the others, and SIGKILL
// 5 s later. It then throws SpawnError, which describes the child that failed first.
// The children die with this process. Throws std::logic_error if the process already has threads.
void spawn(const std::function<void(Job&)>& function, int nprocs);

}  // namespace muster
