// Lets the members of an MPI group share information through the store. Each function can wait for the
// store's server.
#pragma once

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "runtime/comm/mpi/library.h"

namespace muster::mpi {

// Waits until all members have come. If some do not come in time, throws std::runtime_error, which names
// them. Call meet() before you create a communicator. The reason is that creating a communicator blocks the
// engine's thread and cannot be canceled.
void meet(const MpiRequest& request);

// A member that waits in a collective writes the number of this collective to the store, under a key of its
// own. Returns the key of the member at `place`.
std::string waits_key(const std::string& prefix, int place);
// Returns a text that names the members that have not written to the store that they wait in the collective
// `number`. The member at `place` is left out. Returns "" if there are no such members.
std::string missing(const c10::intrusive_ptr<c10d::Store>& store, const std::string& prefix,
                    const std::vector<int>& ranks, int place, std::int64_t number);

}  // namespace muster::mpi
