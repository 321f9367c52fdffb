// Decides what the options and the GPUs of this machine mean for a job: whether its workers get GPUs, whether
// they share them, and which GPUs it leaves to other users. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/core/settings/plan.h"

namespace muster::launcher {

// Returns whether the workers on this machine get GPUs: there is one for each of them, or they share.
bool has_gpus(const Options& options, const Machine& machine, std::int32_t world_size);

// Refuses options about GPUs that contradict each other, or for which there are too few GPUs. Needs the
// plan's nodes and hosts. `environment` is the launcher's.
Status check_gpu_options(const Options& options, const Machine& machine, const Environment& environment,
                         const Plan& plan);

// Returns a notice if workers share GPUs, or if there are fewer GPUs than workers that could use them.
std::optional<std::string> gpu_notice(const Plan& plan, const Machine& machine);

// With --gpus-per-node auto and without --wait-for-gpus, a job does not use GPUs that others fill. This takes
// them out of `machine` and sets CUDA_VISIBLE_DEVICES in `options`. Returns a notice for each. If others fill
// all GPUs, or if the user sets CUDA_VISIBLE_DEVICES with --env, it changes nothing. `visible` is the
// CUDA_VISIBLE_DEVICES of the launcher.
std::vector<std::string> leave_out_gpus(Options& options, Machine& machine,
                                        const std::optional<std::string>& visible);

// Returns those GPUs of `in_use` that workers of the plan could use. `visible` is the CUDA_VISIBLE_DEVICES of
// the workers. GPUs are recognized by their numbers.
std::vector<GpuInUse> in_use_by_others(const std::vector<GpuInUse>& in_use, const Plan& plan,
                                       const Machine& machine, const std::optional<std::string>& visible);

// "GPU 2 is in use: process 4242 of alice holds 61440 MiB"
std::string text_of(const GpuInUse& gpu);

}  // namespace muster::launcher
