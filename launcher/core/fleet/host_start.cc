#include "launcher/core/fleet/host_start.h"

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/core/fleet/container_spec.h"

namespace muster::launcher {

namespace {

constexpr std::string_view kAbsent = "muster-agent absent";

// Returns whether ssh would fail again in the same way. It would if the name is unknown, the host key is
// wrong, or login is not allowed. Other failures can pass: a host that boots refuses connections, and name
// servers can be unreachable for a while.
bool is_lasting_ssh_failure(const HostStart::Failure& failure) {
  constexpr int kSshFailed = 255;
  if (failure.exit_code != kSshFailed) return false;
  const std::string& line = failure.last_line;
  const bool unknown =
      line.contains("Could not resolve hostname") && !line.contains("Temporary failure in name resolution");
  return unknown || line.contains("Host key verification failed") ||
         line.contains("REMOTE HOST IDENTIFICATION HAS CHANGED") || line.contains("Permission denied (");
}

}  // namespace

// With --pull always, brings the image first. Containers of this machine's engine do not need that: the
// launcher pulls their image before the job starts.
HostStart::Step HostStart::first() const {
  const bool always = options_.in_containers() && options_.bootstrap != BootstrapKind::kDocker &&
                      options_.container.pull == Pull::kAlways;
  if (always) return Bring{Missing::kImage};
  return Start{};
}

std::optional<HostStart::Step> HostStart::on_line(std::string_view line) {
  if (const auto greeting = parse_greeting(line)) return Speak{*greeting};
  if (!line.starts_with(kAbsent)) return std::nullopt;
  line.remove_prefix(kAbsent.size());
  const std::string_view machine = line.starts_with(' ') ? line.substr(1) : line;
  if (delivered_) return on_failure({.what = "the agent was copied there, but cannot be used"}, 0);
  if (!machine.empty() && machine != machine_)
    return on_failure(
        {.what = fmt::format("its architecture, {}, differs from this machine's, {}: install Muster there, "
                             "and give --remote-agent",
                             one_line(std::string(machine)), machine_),
         .refused = needed_},
        0);
  return Bring{Missing::kAgent};
}

HostStart::Step HostStart::on_failure(const Failure& failure, double random) {
  const bool lacks_image = options_.in_containers() && failure.last_line.contains("No such image");
  if (lacks_image && options_.container.pull == Pull::kMissing && !pulled_) return Bring{Missing::kImage};
  const bool busy = failure.exit_code && is_busy(*failure.exit_code, failure.last_line);
  const auto pause = busy ? pause_before_next_try(++busy_count_, random) : std::nullopt;
  // With the engine of this machine, an exit code means that the container ended before its agent sent
  // anything. Another try would fail in the same way. On other hosts, many failures are temporary.
  const bool for_good = options_.bootstrap == BootstrapKind::kDocker ||
                        (needed_ && options_.in_containers() && is_lasting_refusal(failure.last_line)) ||
                        (needed_ && is_lasting_ssh_failure(failure));
  const bool refused = failure.refused || (failure.exit_code && for_good);
  if (!pause) return GiveUp{start_failure(options_, host_, failure.what, failure.last_line), refused};
  return Start{*pause};
}

HostStart::Step HostStart::on_brought(Missing what) {
  (what == Missing::kAgent ? delivered_ : pulled_) = true;
  return Start{};
}

}  // namespace muster::launcher
