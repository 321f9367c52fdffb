// Shared by the programs that measure loading. A way of loading is a function that returns one batch after
// the other; each is timed in its own process.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/resource.h>

#include "bench/measure.h"

namespace muster::bench {

// Returns the number of samples in the next batch. Never ends: one epoch follows the other.
using NextBatch = std::function<std::int64_t()>;
// Makes a loader with this number of workers; the clock runs.
using Open = std::function<NextBatch(int workers)>;
// Opens the dataset at this path; the clock does not run yet.
using Prepare = std::function<Open(const std::string& data)>;
using Forms = std::map<std::string, Prepare>;

// The batches of a muster::DataLoader over `dataset`, which it keeps. `count` returns a batch's number of
// samples.
template <class Loader, class Dataset, class Count>
NextBatch batches_of(std::shared_ptr<const Dataset> dataset, std::shared_ptr<Loader> loader, Count count) {
  static constexpr std::int64_t kForEver = std::int64_t{1} << 40;
  const auto place = std::make_shared<std::unique_ptr<typename Loader::Iterator>>();
  return [dataset, loader, place, count] {
    if (*place)
      ++**place;
    else
      *place = std::make_unique<typename Loader::Iterator>(loader.get(), kForEver);
    return static_cast<std::int64_t>(count(***place));
  };
}

// The resident ("VmRSS") or peak ("VmHWM") memory of this process.
inline double memory_mib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":")) return std::stod(line.substr(name.size() + 1)) / 1024;
  return 0;
}

inline double seconds_since(std::int64_t begin_ns) {
  return static_cast<double>(now_ns() - begin_ns) / 1e9;
}

inline double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The figures of one run of `seconds`, after a warm-up of a tenth of a second.
inline nlohmann::json measure(const Open& open, int workers, double seconds) {
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

}  // namespace muster::bench
