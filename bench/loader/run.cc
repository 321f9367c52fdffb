// Measures one way of loading data, in a process of its own, and leaves the figures as JSON in FILE:
//
//   loader_run CASE FORM WORKERS SECONDS DATA FILE
//   loader_run bound FILE                           how much is loaded ahead
#include "bench/loader/run.h"

#include <fmt/format.h>
#include <fstream>
#include <string_view>
#include <sys/resource.h>

#include "bench/measure.h"

namespace muster::bench {
namespace {

double seconds_since(std::int64_t begin_ns) {
  return static_cast<double>(now_ns() - begin_ns) / 1e9;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

nlohmann::json measure(const Open& open, int workers, double seconds) {
  const std::int64_t opened = now_ns();
  const NextBatch next = open(workers);
  next();
  const double first_batch = seconds_since(opened);
  for (const std::int64_t warm_up = now_ns(); seconds_since(warm_up) < 0.1;) next();
  const double cpu_before = cpu_seconds();
  const std::int64_t began = now_ns();
  std::int64_t samples = 0;
  while (seconds_since(began) < seconds) samples += next();
  const double elapsed = seconds_since(began);
  const double million = static_cast<double>(samples) / 1e6;
  return {{"samples_per_second", static_cast<double>(samples) / elapsed},
          {"cpu_seconds_per_million", (cpu_seconds() - cpu_before) / million},
          {"peak_mib", memory_mib("VmHWM")},
          {"first_batch_ms", first_batch * 1e3}};
}

}  // namespace

double memory_mib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":")) return std::stod(line.substr(name.size() + 1)) / 1024;
  return 0;
}

}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster::bench;
  const std::map<std::string, Forms (*)()> cases = {
      {"fashion_mnist", fashion_mnist}, {"images", images}, {"photos", photos}, {"tokens", tokens}};
  if (argc == 3 && std::string_view(argv[1]) == "bound") {
    std::ofstream(argv[2]) << bound().dump() << '\n';
    return 0;
  }
  if (argc != 7 || !cases.contains(argv[1]) || !cases.at(argv[1])().contains(argv[2])) {
    fmt::print(stderr, "loader_run CASE FORM WORKERS SECONDS DATA FILE, or loader_run bound FILE\n");
    return 2;
  }
  const Open open = cases.at(argv[1])().at(argv[2])(argv[5]);
  std::ofstream(argv[6]) << measure(open, std::atoi(argv[3]), std::atof(argv[4])).dump() << '\n';
  std::_Exit(0);  // loaders of torch::data may still be at work
}
