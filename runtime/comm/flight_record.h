// What torch's flight recorder has of the collectives of this process: the last 2000, over Gloo and over
// NCCL.
//
// From any thread, while the training thread may wait in one. Not of MPI and shared memory, which torch does
// not record.
#pragma once

#include <string>
#include <vector>

#include "runtime/rank/reports.h"

namespace muster {

// Those of the backends of which there is one. Nothing throws.
std::vector<FlightRecord> flight_records();
// The lines of torch's JSON.
std::vector<std::string> lines_of_record(const std::string& json);

}  // namespace muster
