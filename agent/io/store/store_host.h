// The seam to the c10d store that an attempt's ranks meet at, on the node of rank 0.
//
// One store an attempt. Nothing here waits. One thread.
#pragma once

#include <cstdint>

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
  // The attempt is over. `keep`: others' ranks may use its store until the next open() or close().
  virtual void close(bool keep) = 0;
};

}  // namespace muster::agent
