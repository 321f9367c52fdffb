// The seam to the server that lets a node's MPI ranks find each other: PMIx for Open MPI's programs, PMI-1
// for MPICH's.
//
// Agent passes the server's questions to the launcher, and the answers back; Node has no part in this. Jobs
// without MPI do not use it. Nothing here waits; one thread.
#pragma once

#include <expected>
#include <string>

#include "agent/core/node/node.h"
#include "agent/core/start/start_failure.h"

namespace muster::agent {

class MpiListener {
 public:
  virtual ~MpiListener() = default;
  // A question for the launcher; pass the answer to MpiHost::hear().
  virtual void mpi_asked(const wire::MpiAsked& asked) = 0;
  // The rank has called MPI_Abort, and its library expects another process to kill it.
  virtual void mpi_aborted(LocalRank rank) = 0;
};

class MpiHost {
 public:
  virtual ~MpiHost() = default;
  // Called once. The listener must outlive this object's last call to it.
  virtual void begin(MpiListener& listener) = 0;
  // Serves the attempt's ranks, if their program needs it. close() follows in any case.
  virtual std::expected<void, StartFailure> open(const wire::JobSpec& job, const OpenAttempt& attempt) = 0;
  virtual void hear(const wire::MpiTold& told) = 0;
  // The fault of the ended worker (wire::WorkerExited::mpi_fault); "" if it did nothing wrong. Sets the exit
  // code if it aborted.
  virtual std::string fault_of(LocalRank rank, wire::WorkerExited& exited) = 0;
  virtual void close() = 0;
};

}  // namespace muster::agent
