#include "launcher/core/settings/gpu_options.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

constexpr const char* kVisibleGpus = "CUDA_VISIBLE_DEVICES";

std::string note_of(const Machine& machine) {
  return machine.gpu_note.empty() ? "" : fmt::format(" ({})", machine.gpu_note);
}

Status check_count(const Options& options, const Machine& machine, std::int32_t world_size) {
  const bool fits = world_size <= machine.gpu_count || options.share_gpus;
  if (options.device != Device::kCuda || fits) return {};
  return failure(ErrorCode::kInvalidArgument,
                 "--device: cuda needs a GPU for each worker, but there are {} and {}{}: start fewer, "
                 "{}or use --device cpu",
                 count_of(world_size, "worker"), count_of(machine.gpu_count, "GPU"), note_of(machine),
                 machine.gpu_count > 0 ? "let them share with --share-gpus, " : "");
}

Status check_virtual_local_rank(const Options& options, const Environment& environment,
                                std::int32_t per_node) {
  const auto of_rocm = environment.find("HIP_VISIBLE_DEVICES");
  const bool rocm = of_rocm != environment.end() && !of_rocm->second.empty();
  const auto list = rocm ? of_rocm : environment.find(kVisibleGpus);
  if (!options.virtual_local_rank || options.share_gpus || options.device == Device::kCpu ||
      list == environment.end() || list->second.empty())
    return {};
  const auto count = std::ranges::count(list->second, ',') + 1;
  if (count >= std::int64_t{per_node}) return {};
  return failure(ErrorCode::kInvalidArgument,
                 "--virtual-local-rank: {}={} names {} for {} workers: start fewer, or use --device cpu",
                 list->first, list->second, count_of(count, "GPU"), per_node);
}

// Checks the flags that need GPUs.
Status check_needs(const Options& options, const Machine& machine, const Plan& plan) {
  const char* const flag = options.share_gpus      ? "--share-gpus"
                           : options.wait_for_gpus ? "--wait-for-gpus"
                                                   : nullptr;
  if (flag == nullptr) return {};
  const auto refuse = [flag](std::string_view why) {
    return failure(ErrorCode::kInvalidArgument, "{}: {}", flag, why);
  };
  if (options.device == Device::kCpu) return refuse("--device cpu hides GPUs from workers: give one of them");
  if (options.wait_for_gpus && !plan.hosts.empty())
    return failure(ErrorCode::kInvalidArgument,
                   "--wait-for-gpus: works only on this machine, without --hosts and --image: leave it out");
  if (options.remote.in_containers() && options.remote.container.gpus.empty())
    return refuse("the containers have no GPUs: give --gpus all");
  if (plan.hosts.empty() && machine.gpu_count == 0)
    return refuse(fmt::format("no GPU found on this machine{}: leave it out", note_of(machine)));
  return {};
}

std::vector<std::string> entries_of(const std::optional<std::string>& visible, std::int32_t gpu_count) {
  std::vector<std::string> entries;
  if (visible) {
    for (const std::string_view entry : split(*visible, ',')) entries.emplace_back(entry);
  } else {
    for (std::int32_t gpu = 0; gpu < gpu_count; ++gpu) entries.push_back(std::to_string(gpu));
  }
  return entries;
}

const GpuInUse* find_entry(const std::vector<GpuInUse>& in_use, std::string_view entry) {
  const auto found =
      std::ranges::find(in_use, parse_number<std::int32_t>(entry).value_or(-1), &GpuInUse::gpu);
  return found == in_use.end() ? nullptr : &*found;
}

}  // namespace

bool has_gpus(const Options& options, const Machine& machine, std::int32_t world_size) {
  return machine.gpu_count > 0 && (world_size <= machine.gpu_count || options.share_gpus);
}

Status check_gpu_options(const Options& options, const Machine& machine, const Environment& environment,
                         const Plan& plan) {
  if (Status needs = check_needs(options, machine, plan); !needs) return needs;
  if (!plan.hosts.empty()) return {};
  if (Status enough = check_count(options, machine, plan.world_size()); !enough) return enough;
  return check_virtual_local_rank(options, environment, plan.nodes.front().worker_count);
}

std::optional<std::string> gpu_notice(const Plan& plan, const Machine& machine) {
  if (plan.job.share_gpus && !plan.hosts.empty())
    return "--share-gpus: on a host with more workers than GPUs, workers share memory and time of a GPU, and "
           "NCCL sends their data over sockets";
  if (!plan.hosts.empty() || machine.gpu_count == 0 || plan.world_size() <= machine.gpu_count)
    return std::nullopt;
  const std::string counts =
      fmt::format("{} and {}", count_of(plan.world_size(), "worker"), count_of(machine.gpu_count, "GPU"));
  if (plan.job.share_gpus)
    return fmt::format("{}: workers share memory and time of a GPU, and NCCL sends their data over sockets",
                       counts);
  if (!plan.job.environment.contains(kVisibleGpus))
    return fmt::format(
        "{}: workers get no GPU of their own, and each sees all: "
        "give --share-gpus to let them share, or --device cpu to do without",
        counts);
  return std::nullopt;
}

std::vector<std::string> leave_out_gpus(Options& options, Machine& machine,
                                        const std::optional<std::string>& visible) {
  const bool is_auto = options.workers_per_node.kind == WorkerCount::Kind::kAuto;
  if (!is_auto || options.wait_for_gpus || options.added.contains(kVisibleGpus)) return {};
  std::vector<std::string> notices;
  std::string free;
  std::int32_t free_count = 0;
  for (const std::string& entry : entries_of(visible, machine.gpu_count)) {
    if (const GpuInUse* in_use = find_entry(machine.gpus_in_use, entry)) {
      notices.push_back(fmt::format("{}: --gpus-per-node auto leaves it out", text_of(*in_use)));
    } else if (free_count + static_cast<std::int32_t>(notices.size()) < machine.gpu_count) {
      free += (free.empty() ? "" : ",") + entry;
      ++free_count;
    }
  }
  if (free_count == 0 || notices.empty()) return {};
  machine.gpu_count = free_count;
  options.added[kVisibleGpus] = free;
  options.added.try_emplace("CUDA_DEVICE_ORDER", "PCI_BUS_ID");  // the driver's numbers, and not CUDA's own
  return notices;
}

std::vector<GpuInUse> in_use_by_others(const std::vector<GpuInUse>& in_use, const Plan& plan,
                                       const Machine& machine, const std::optional<std::string>& visible) {
  const std::vector<std::string> entries = entries_of(visible, machine.gpu_count);
  // If each worker has a GPU of its own, the workers of a node have the first ones of the node's share.
  const bool own_each = plan.world_size() <= machine.gpu_count;
  const std::size_t share = visible ? entries.size() / plan.nodes.size() : 0;
  std::vector<GpuInUse> found;
  for (std::size_t at = 0; at < entries.size(); ++at) {
    const GpuInUse* gpu = find_entry(in_use, entries[at]);
    const bool has_worker = std::ranges::any_of(plan.nodes, [&](const NodePlan& node) {
      const std::size_t first = visible ? share * static_cast<std::size_t>(node.node.value())
                                        : static_cast<std::size_t>(node.first_rank.value());
      return at >= first && at < first + static_cast<std::size_t>(node.worker_count);
    });
    if (gpu != nullptr && (has_worker || !own_each)) found.push_back(*gpu);
  }
  return found;
}

std::string text_of(const GpuInUse& gpu) {
  return fmt::format("GPU {} is in use: process {} of {} holds {} MiB", gpu.gpu, gpu.pid, gpu.user,
                     gpu.mebibyte_count);
}

}  // namespace muster::launcher
