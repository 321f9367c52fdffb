// The jobs of chaos_hosts and chaos_containers: their plan, their program, and the checks after their end.
// Their ranks only count; the program does not know Muster.
//
// Plain functions; the caller launches the job and makes its faults.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/base/file.h"

namespace muster::chaos {

// A job's settings and faults, which follow from its seed.
template <class Fault>
struct JobPlan {
  enum class Size { kSpare, kElastic, kFixed } size = Size::kSpare;
  bool stdio = false;
  bool interrupted = false;  // at the end, by Ctrl-C
  std::vector<Fault> faults;
};

// `draw`: returns a fault for a random generator.
template <class Fault, class Draw>
JobPlan<Fault> make_plan(std::uint64_t seed, int fault_count, const Draw& draw) {
  std::mt19937_64 random(seed);
  JobPlan<Fault> plan;
  plan.size = static_cast<typename JobPlan<Fault>::Size>(random() % 3);
  plan.stdio = random() % 3 == 0;
  plan.interrupted = random() % 5 == 0;
  for (int i = 0; i < fault_count; ++i) plan.faults.push_back(draw(random));
  return plan;
}

// `control`: the value of --control if it is not stdio.
template <class Fault>
std::string text_of(const JobPlan<Fault>& plan, const char* control) {
  constexpr const char* kSizes[] = {"spare", "elastic", "fixed"};
  std::string text =
      fmt::format("{}, {}", kSizes[static_cast<int>(plan.size)], plan.stdio ? "stdio" : control);
  for (const Fault& fault : plan.faults)
    text += fmt::format("; +{} ms {}", fault.pause.count(), text_of(fault));
  return text + (plan.interrupted ? "; Ctrl-C" : "");
}

// Writes the job's program. Its arguments are a folder and the launch's number. Each rank keeps its count in
// the folder; it counts to 30, and on until the file `enough` is there, so that the job outlasts its faults.
inline void write_counter(const std::string& path) {
  std::ofstream(path) << R"(#!/bin/sh
mine=$1/rank_$RANK
n=$(cat $mine 2>/dev/null || echo 0)
echo ready at $n
while [ $n -lt 30 ] || [ ! -e $1/enough ]; do
  sleep 0.1
  n=$((n+1))
  echo $n >$mine.$$ && mv $mine.$$ $mine
done
echo $n >$1/done_$2_${MUSTER_ATTEMPT}_$RANK
)";
  std::filesystem::permissions(path, std::filesystem::perms(0755));
}

// The failed checks of a job of counters that has ended: its exit code is `wanted` and equals its report's;
// if it is 0, at least `least_ranks` ranks of the last attempt have counted to the end.
inline std::vector<std::string> violations_of(const nlohmann::json& report, int code, int wanted,
                                              int least_ranks, const std::filesystem::path& folder,
                                              std::size_t launch) {
  std::vector<std::string> violations;
  const auto expect = [&](bool held, const std::string& what) {
    if (!held) violations.push_back(what);
  };
  expect(report.value("exit_code", -1) == code,
         fmt::format("it exited with {}, and its report has {}", code, report.value("exit_code", -1)));
  expect(code == wanted, fmt::format("it exited with {}, not with {}", code, wanted));
  if (code != 0) return violations;
  const auto& last = report.at("attempts").back();
  const int ranks = last.at("world_size");
  expect(ranks >= least_ranks, fmt::format("only {} ranks took part", ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string name = fmt::format("done_{}_{}_{}", launch, last.at("attempt").get<int>(), rank);
    const auto counted = read_file(folder / name, 64);
    const int steps = counted ? std::atoi(counted->c_str()) : 0;
    expect(steps >= 30, fmt::format("WRONG SUCCESS: rank {} counted to {}", rank, steps));
  }
  return violations;
}

}  // namespace muster::chaos
