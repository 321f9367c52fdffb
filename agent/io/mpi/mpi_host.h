// The seam to what serves a node's MPI ranks, so that they find each other: PMIx for Open MPI's programs,
// PMI-1 for MPICH's.
//
// Agent performs Node beside it, and carries its questions to the launcher. Nothing is asked of it in jobs
// without MPI. Nothing here waits; one thread.
#pragma once

#include <expected>
#include <string>

#include "agent/core/node/node.h"
#include "agent/core/start/start_failure.h"

namespace muster::agent {

class MpiListener {
 public:
  virtual ~MpiListener() = default;
  // For the launcher; an answer comes by MpiHost::hear().
  virtual void mpi_asked(const wire::MpiAsked& asked) = 0;
  // The rank has called MPI_Abort, and its library leaves it to others to end it.
  virtual void mpi_aborted(LocalRank rank) = 0;
};

class MpiHost {
 public:
  virtual ~MpiHost() = default;
  // Called once. The listener outlives this object's last call of it.
  virtual void begin(MpiListener& listener) = 0;
  // Serves the attempt's ranks, if their program needs it. close() follows in any case.
  virtual std::expected<void, StartFailure> open(const wire::JobSpec& job, const OpenAttempt& attempt) = 0;
  virtual void hear(const wire::MpiTold& told) = 0;
  // What the worker that has ended so did wrong (wire::WorkerExited::mpi_fault); sets the exit code of an
  // abort.
  virtual std::string fault_of(LocalRank rank, wire::WorkerExited& exited) = 0;
  virtual void close() = 0;
};

}  // namespace muster::agent
