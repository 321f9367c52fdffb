// What a rank of bench/collectives does: measures all contenders in turn, one of which is another job, of
// plain MPI.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace muster::bench {

constexpr const char* kPlain = "plain MPI_Iallreduce";
constexpr const char* kReport = "report.json";

struct Settings {
  std::vector<int> ranks{2, 4};
  std::size_t least_bytes = 4;
  std::size_t most_bytes = std::size_t{256} << 20;
  int rounds = 9;
  std::vector<std::string> backends{"gloo", "shm", "mpi"};  // the first one is the measure
  bool plain = true;
  std::string directory;  // of the rank: its fifos lie there (plain.c), and the report of rank 0 comes there
};

// As one rank of a job. The report has a table for each size: title, unit, bytes, ranks, all_reduce, rows.
void measure_as_rank(const Settings& settings);

}  // namespace muster::bench
