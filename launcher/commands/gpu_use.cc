#include "launcher/commands/gpu_use.h"

#include <csignal>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "launcher/core/settings/gpu_options.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/settings/gpus.h"

namespace muster::launcher {

namespace {

constexpr int kGpuLookPauseMs = 200;

// Waits for one pause. Returns the signal that has come, or 0.
int pause_or_signal(int signals) {
  pollfd readable{.fd = signals, .events = POLLIN, .revents = 0};
  if (poll(&readable, 1, kGpuLookPauseMs) <= 0) return 0;
  signalfd_siginfo info{};
  const bool has_come = read(signals, &info, sizeof info) == sizeof info && info.ssi_signo != SIGCHLD;
  return has_come ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace

int settle_gpu_use(const Prepared& prepared, const Surroundings& here, int signals,
                   std::vector<std::string>& notices) {
  const Options& options = prepared.request.options;
  if (options.device == Device::kCpu) return 0;
  const auto visible = variable_of(prepared.plan, here, "CUDA_VISIBLE_DEVICES");
  const auto of_job = [&](const std::vector<GpuInUse>& in_use) {
    return in_use_by_others(in_use, prepared.plan, prepared.machine, visible);
  };
  std::vector<GpuInUse> in_use = of_job(prepared.machine.gpus_in_use);
  if (in_use.empty()) return 0;
  if (!options.wait_for_gpus) {
    for (const GpuInUse& gpu : in_use) notices.push_back(text_of(gpu));
    return 0;
  }
  const TimePoint begun = Clock::now();
  const TimePoint end = begun + *options.wait_for_gpus;
  if (!options.quiet)
    say(fmt::format("{}: waiting up to {:g} s for it", text_of(in_use.front()), in_seconds(end - begun)));
  while (!in_use.empty()) {
    if (Clock::now() >= end)
      return refuse({ErrorCode::kUnavailable, fmt::format("--wait-for-gpus: still waiting after {:g} s: {}",
                                                          in_seconds(end - begun), text_of(in_use.front()))},
                    kExitNodesMissing);
    if (const int signal = pause_or_signal(signals); signal != 0) return 128 + signal;
    if (const auto found = gpus_in_use()) in_use = of_job(*found);  // otherwise the driver may answer later
  }
  notices.push_back(fmt::format("the job's GPUs are free after {:.1f} s", in_seconds(Clock::now() - begun)));
  return 0;
}

}  // namespace muster::launcher
