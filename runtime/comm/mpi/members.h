// What the members of a group tell each other in the store. By threads that may wait for it.
#pragma once

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "runtime/comm/mpi/library.h"

namespace muster::mpi {

// Making a communicator cannot be given up, and keeps the engine's thread: the members come together before
// it. Throws std::runtime_error with who has not come in time.
void meet(const MpiRequest& request);

// Where a member writes down in which of the group's collectives it waits.
std::string waits_key(const std::string& prefix, int place);
// Which of these members, beside the one at `place`, have not written down that they wait in this collective,
// in words; empty: none.
std::string missing(const c10::intrusive_ptr<c10d::Store>& store, const std::string& prefix,
                    const std::vector<int>& ranks, int place, std::int64_t number);

}  // namespace muster::mpi
