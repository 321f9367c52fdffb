// Reads the record that torch keeps of the last 2000 collectives of this process over Gloo and NCCL. torch
// does not record collectives over MPI and over shared memory.
//
// Any thread can call these functions, even while the training thread waits in a collective.
#pragma once

#include <string>
#include <vector>

#include "runtime/rank/reports.h"

namespace muster {

// Returns a record for each backend that is in use. Never throws.
std::vector<FlightRecord> flight_records();
// `json` is the record of torch. Returns one line for each group in it. The line describes the newest
// collective of the group.
std::vector<std::string> lines_of_record(const std::string& json);

}  // namespace muster
