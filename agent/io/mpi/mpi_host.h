// The interface to the server through which the MPI ranks of a node find each other. For programs of Open MPI
// it uses PMIx, and for programs of MPICH it uses PMI-1. Tests replace it.
//
// The server's questions go to the launcher, and the answers come back. Agent passes both on. Jobs without
// MPI do not use the server. No function blocks. One thread.
#pragma once

#include <expected>
#include <string>

#include "agent/core/node/node.h"
#include "agent/core/start/start_failure.h"

namespace muster::agent {

class MpiListener {
 public:
  virtual ~MpiListener() = default;
  // Passes a question to the launcher. When the launcher answers, pass the answer to MpiHost::hear().
  virtual void mpi_asked(const wire::MpiAsked& asked) = 0;
  // Reports that the rank has called MPI_Abort. The rank's MPI library expects that the agent then kills the
  // rank.
  virtual void mpi_aborted(LocalRank rank) = 0;
};

class MpiHost {
 public:
  virtual ~MpiHost() = default;
  // Call this once, before all other functions. The listener must outlive the last call that this object
  // makes to it.
  virtual void begin(MpiListener& listener) = 0;
  // Starts to serve the ranks of the attempt, if their program uses MPI. Call close() in the end, even if
  // this function has returned an error.
  virtual std::expected<void, StartFailure> open(const wire::JobSpec& job, const OpenAttempt& attempt) = 0;
  virtual void hear(const wire::MpiTold& told) = 0;
  // Returns the fault of a worker that has ended (wire::WorkerExited::mpi_fault), or "" if it has none. If
  // the worker has called MPI_Abort, this also sets the exit code in `exited`.
  virtual std::string fault_of(LocalRank rank, wire::WorkerExited& exited) = 0;
  virtual void close() = 0;
};

}  // namespace muster::agent
