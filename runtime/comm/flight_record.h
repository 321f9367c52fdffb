// What torch's flight recorder has of the collectives of this process: the last 2000, over Gloo and over
// NCCL.
//
// From any thread, while the training thread may wait in one. Not of MPI and shared memory, which torch does
// not record.
#pragma once

#include <string>
#include <vector>

namespace muster {

struct FlightRecord {
  std::string backend;  // "gloo"
  std::string json;     // as torch writes it, for its own tools
  // For each group what its newest collective is: "collective 41 of the group 'world', which has ended 40:
  // all_reduce of Float [4]". Groups that the program has made have their number: 'trainers (group 1)'.
  std::vector<std::string> lines;
};

// Those of the backends of which there is one. Nothing throws.
std::vector<FlightRecord> flight_records();
// The lines of torch's JSON.
std::vector<std::string> lines_of_record(const std::string& json);

}  // namespace muster
