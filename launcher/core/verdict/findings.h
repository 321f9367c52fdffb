// The findings of `launch check` about a machine: OK, a warning or a failure, each with advice.
//
// Pure: it only makes findings from numbers.
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

// The size of the launch. The machine must have room for it.
struct Demand {
  std::int32_t nodes = 1;
  std::int32_t workers = 1;           // on all nodes
  std::int32_t workers_per_node = 1;  // on the largest node
};

struct Space {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
};

// Checks the free space at `path`. The finding is a warning if less than `wanted_bytes` are free, and a
// failure if less than a hundredth of that is free. `name` is a text such as "log directory".
Finding judge_disk(std::string name, const std::string& path, const Space& space, std::uint64_t wanted_bytes);
// `space` is the space of /dev/shm, which data loaders and NCCL use to pass tensors on. It is nullopt if
// /dev/shm does not exist.
Finding judge_shared_memory(const std::optional<Space>& space, const Demand& demand);
Finding judge_descriptors(std::uint64_t limit, const Demand& demand);
Finding judge_processes(const std::vector<ProcessLimit>& limits, const Demand& demand);
// `written_unix` is the time that the file system has given to a file that was written just now.
Finding judge_clock(double now_unix, std::optional<double> written_unix);

bool all_fit(const std::vector<Finding>& findings);  // no finding is kFail
// `columns` is the width of the terminal. 0 means that the table can have any width.
std::string findings_as_table(const std::vector<Finding>& findings, std::size_t columns = 0);
// Returns JSON such as {"fit": true, "checks": [{"name", "result": "ok"|"warn"|"fail", "text", "advice"}]}.
std::string findings_as_json(const std::vector<Finding>& findings);

}  // namespace muster::launcher
