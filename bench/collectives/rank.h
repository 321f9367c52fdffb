// A rank of bench/collectives: measures all contenders in turn. The contender plain MPI is another job.
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
  std::vector<std::string> backends{"gloo", "shm", "mpi"};  // ratios are to the first one
  bool plain = true;
  std::string directory;  // for the fifos to plain MPI (plain.c) and rank 0's report
};

// Runs one rank of a job. The report has a table per size: title, unit, bytes, ranks, all_reduce, rows.
void measure_as_rank(const Settings& settings);

}  // namespace muster::bench
