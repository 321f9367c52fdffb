// The findings of `launch check` about a machine: OK, a warning or a failure, each with advice.
//
// Pure: numbers in, findings out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/process_limits.h"

namespace muster::launcher {

struct Finding {
  enum class Result { kOk, kWarn, kFail } result = Result::kOk;
  std::string name;
  std::string text;      // what was found
  std::string advice{};  // what to do; empty for kOk
};

// The size of the launch that the machine must hold.
struct Demand {
  std::int32_t nodes = 1;
  std::int32_t workers = 1;           // on all nodes
  std::int32_t workers_per_node = 1;  // on the largest node
};

struct Space {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
};

// Warns if less than `wanted_bytes` are free, and fails below a hundredth of that. `name`: such as "log
// directory".
Finding judge_disk(std::string name, const std::string& path, const Space& space, std::uint64_t wanted_bytes);
// `space`: of /dev/shm, where data loaders and NCCL pass tensors; nullopt if it does not exist.
Finding judge_shared_memory(const std::optional<Space>& space, const Demand& demand);
Finding judge_descriptors(std::uint64_t limit, const Demand& demand);
Finding judge_processes(const std::vector<ProcessLimit>& limits, const Demand& demand);
// `written_unix`: the file system's time of a file written just now.
Finding judge_clock(double now_unix, std::optional<double> written_unix);

bool all_fit(const std::vector<Finding>& findings);  // no finding is kFail
// `columns`: the terminal's width; 0: unlimited.
std::string findings_as_table(const std::vector<Finding>& findings, std::size_t columns = 0);
// {"fit": true, "checks": [{"name", "result": "ok"|"warn"|"fail", "text", "advice"}]}
std::string findings_as_json(const std::vector<Finding>& findings);

}  // namespace muster::launcher
