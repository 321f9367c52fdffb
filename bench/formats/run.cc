// Measures one way of reading a format, in its own process, and writes the figures as JSON to FILE:
//
//   formats_run CASE FORM WORKERS SECONDS FOLDER FILE
//   formats_run make CASE FOLDER                        makes the data
#include "bench/formats/run.h"

#include <fmt/format.h>
#include <fstream>
#include <string_view>
#include <torch/torch.h>

int main(int argc, char** argv) {
  using namespace muster::bench;
  if (argc == 4 && std::string_view(argv[1]) == "make") {
    make_data(argv[2], argv[3]);
    return 0;
  }
  const std::map<std::string, Forms (*)()> cases = {{"jpegs", jpegs},       {"samples", samples},
                                                    {"members", members},   {"npy", npy},
                                                    {"megatron", megatron}, {"parquet", parquet}};
  if (argc != 7 || !cases.contains(argv[1]) || !cases.at(argv[1])().contains(argv[2])) {
    fmt::print(stderr,
               "usage: formats_run CASE FORM WORKERS SECONDS FOLDER FILE, or formats_run make CASE FOLDER\n");
    return 2;
  }
  at::set_num_threads(1);  // as in a training with as many ranks as cores
  nlohmann::json figures =
      measure(cases.at(argv[1])().at(argv[2])(argv[5]), std::atoi(argv[3]), std::atof(argv[4]));
  if (std::string_view(argv[2]).starts_with("cat"))
    figures.erase("peak_mib");  // other processes do the reading
  std::ofstream(argv[6]) << figures.dump() << '\n';
  return 0;
}
