// The interface to the server through which a node's MPI ranks find each other: PMIx for Open MPI's programs,
// PMI-1 for MPICH's. Tests replace it.
//
// Agent passes the server's questions to the launcher, and the answers to the server. Jobs without MPI do not
// use the server. No function blocks. One thread.
#pragma once

#include <expected>
#include <string>

#include "agent/core/node/node.h"
#include "agent/core/start/start_failure.h"

namespace muster::agent {

class MpiListener {
 public:
  virtual ~MpiListener() = default;
  // Passes a question to the launcher. Pass the launcher's answer to MpiHost::hear().
  virtual void mpi_asked(const wire::MpiAsked& asked) = 0;
  // Reports that the rank has called MPI_Abort, and that its library expects the agent to kill it.
  virtual void mpi_aborted(LocalRank rank) = 0;
};

class MpiHost {
 public:
  virtual ~MpiHost() = default;
  // Call once, first. The listener must outlive this object's last call to it.
  virtual void begin(MpiListener& listener) = 0;
  // Starts to serve the attempt's ranks, if their program uses MPI. Call close() afterwards, also after an
  // error.
  virtual std::expected<void, StartFailure> open(const wire::JobSpec& job, const OpenAttempt& attempt) = 0;
  virtual void hear(const wire::MpiTold& told) = 0;
  // Returns the fault of the ended worker (wire::WorkerExited::mpi_fault), or "" if there is none. If the
  // worker has called MPI_Abort, sets the exit code in `exited`.
  virtual std::string fault_of(LocalRank rank, wire::WorkerExited& exited) = 0;
  virtual void close() = 0;
};

}  // namespace muster::agent
