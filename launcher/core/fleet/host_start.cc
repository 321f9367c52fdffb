#include "launcher/core/fleet/host_start.h"

#include <fmt/format.h>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

constexpr std::string_view kAbsent = "muster-agent absent";

}  // namespace

std::optional<HostStart::Step> HostStart::on_line(std::string_view line) {
  if (const auto greeting = parse_greeting(line)) return Speak{*greeting};
  if (!line.starts_with(kAbsent)) return std::nullopt;
  line.remove_prefix(kAbsent.size());
  const std::string_view machine = line.starts_with(' ') ? line.substr(1) : line;
  if (delivered_) return on_failure({.what = "an agent was brought there, and cannot be used"}, 0);
  if (!machine.empty() && machine != machine_)
    return on_failure({.what = fmt::format("it is of another kind, {}, than this machine, {}: install Muster "
                                           "there, and give --remote-agent",
                                           one_line(std::string(machine)), machine_)},
                      0);
  return Deliver{};
}

HostStart::Step HostStart::on_failure(const Failure& failure, double random) {
  const bool busy = failure.exit_code && is_busy(*failure.exit_code, failure.last_line);
  const auto pause = busy ? pause_before_next_try(++busy_count_, random) : std::nullopt;
  if (!pause) return GiveUp{start_failure(options_, host_, failure.what, failure.last_line)};
  return Start{*pause};
}

HostStart::Step HostStart::on_delivered() {
  delivered_ = true;
  return Start{};
}

}  // namespace muster::launcher
