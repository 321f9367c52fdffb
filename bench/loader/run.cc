// Measures one way of loading data, in its own process, and writes the figures as JSON to FILE:
//
//   loader_run CASE FORM WORKERS SECONDS DATA FILE
//   loader_run bound FILE                           measures how much is loaded ahead
#include "bench/loader/run.h"

#include <fmt/format.h>
#include <fstream>
#include <string_view>

int main(int argc, char** argv) {
  using namespace muster::bench;
  const std::map<std::string, Forms (*)()> cases = {
      {"fashion_mnist", fashion_mnist}, {"images", images}, {"photos", photos}, {"tokens", tokens}};
  if (argc == 3 && std::string_view(argv[1]) == "bound") {
    std::ofstream(argv[2]) << bound().dump() << '\n';
    return 0;
  }
  if (argc != 7 || !cases.contains(argv[1]) || !cases.at(argv[1])().contains(argv[2])) {
    fmt::print(stderr, "usage: loader_run CASE FORM WORKERS SECONDS DATA FILE, or loader_run bound FILE\n");
    return 2;
  }
  const Open open = cases.at(argv[1])().at(argv[2])(argv[5]);
  std::ofstream(argv[6]) << measure(open, std::atoi(argv[3]), std::atof(argv[4])).dump() << '\n';
  std::_Exit(0);  // loaders of torch::data may still be at work
}
