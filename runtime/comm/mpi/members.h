// Information that the members of a group share through the store. Each call can wait for the store's server.
#pragma once

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "runtime/comm/mpi/library.h"

namespace muster::mpi {

// Waits for all members. Creating a communicator blocks the engine's thread and cannot be canceled, so call
// meet() first. Throws std::runtime_error with the ranks that did not come in time.
void meet(const MpiRequest& request);

// Returns the key under which the member at `place` writes in which of the group's collectives it waits.
std::string waits_key(const std::string& prefix, int place);
// Returns a text with the members that have not written that they wait in the collective `number`; "" if
// there are none. Does not count the member at `place`.
std::string missing(const c10::intrusive_ptr<c10d::Store>& store, const std::string& prefix,
                    const std::vector<int>& ranks, int place, std::int64_t number);

}  // namespace muster::mpi
