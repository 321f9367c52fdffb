// What `launch check` found out about a machine, and how it is judged: fit, doubtful, unfit, with what to do.
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
  std::string advice{};  // what to do, unless it is fit
};

// What a launch on this machine needs.
struct Demand {
  std::int32_t nodes = 1;
  std::int32_t workers = 1;           // of all nodes
  std::int32_t workers_per_node = 1;  // of the largest
};

struct Space {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
};

// `name`: "log directory"; `wanted_bytes`: less is doubtful, a hundredth of it unfit.
Finding judge_disk(std::string name, const std::string& path, const Space& space, std::uint64_t wanted_bytes);
// `space`: of /dev/shm, through which data loaders and NCCL pass tensors; nothing if there is none.
Finding judge_shared_memory(const std::optional<Space>& space, const Demand& demand);
Finding judge_descriptors(std::uint64_t limit, const Demand& demand);
Finding judge_processes(const std::vector<ProcessLimit>& limits, const Demand& demand);
// `written_unix`: the time that a file system gave to a file written just now.
Finding judge_clock(double now_unix, std::optional<double> written_unix);

bool all_fit(const std::vector<Finding>& findings);  // none is unfit
std::string findings_as_table(const std::vector<Finding>& findings);
// {"fit": true, "checks": [{"name", "result": "ok"|"warn"|"fail", "text", "advice"}]}
std::string findings_as_json(const std::vector<Finding>& findings);

}  // namespace muster::launcher
