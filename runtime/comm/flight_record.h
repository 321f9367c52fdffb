// Reads torch's flight recorder: the last 2000 collectives of this process, over Gloo and NCCL.
//
// Safe from any thread, even while the training thread waits in a collective. torch does not record
// collectives over MPI and shared memory.
#pragma once

#include <string>
#include <vector>

#include "runtime/rank/reports.h"

namespace muster {

// Returns the records of the backends that are in use. Never throws.
std::vector<FlightRecord> flight_records();
// Returns one line for each group in torch's JSON: the newest collective of the group.
std::vector<std::string> lines_of_record(const std::string& json);

}  // namespace muster
