// The seam to the c10d store that an attempt's ranks meet at, on the node of rank 0, and to the way there.
//
// One store an attempt. Nothing here waits. One thread.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/error.h"
#include "common/wire/messages.h"

namespace muster::agent {

class StoreHost {
 public:
  virtual ~StoreHost() = default;
  // Serves the attempt's store here, or keeps a port for the rank that will, where the plan says so. Returns
  // the port; 0 where the plan has the store elsewhere. A store that was kept is closed. Errors: the address
  // is not of this machine, or the port is taken.
  virtual Expected<std::int32_t> open(const wire::JobSpec& job, const wire::PrepareAttempt& plan) = 0;
  // Asks the attempt's store, wherever it is, for an answer; where rank 0 serves it, its host for one, as the
  // store is not there yet. `done` is called once, later, and not after close(). Errors: the address is none,
  // nobody answers there, or it is not a store that answers.
  virtual void reach(const wire::JobSpec& job, const wire::StartWorkers& start,
                     std::function<void(const Status&)> done) = 0;
  // The attempt is over. `keep`: others' ranks may use its store until the next open() or close().
  virtual void close(bool keep) = 0;
};

}  // namespace muster::agent
