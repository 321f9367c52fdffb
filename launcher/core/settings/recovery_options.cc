#include "launcher/core/settings/recovery_options.h"

#include "common/base/text.h"

namespace muster::launcher {

namespace {

void read_nodes(SettingReader& reader, Options& options) {
  const Setting* setting = reader.find("nodes");
  if (setting == nullptr) return;
  const auto parts = split(setting->values.back(), ':');
  const auto low = parse_number<std::int32_t>(parts.front());
  const auto high = parse_number<std::int32_t>(parts.back());
  if (parts.size() > 2 || !low || !high || *low < 1 || *high < 1)
    return reader.refuse(*setting, "is not a number of nodes: give 1 or more, or MIN:MAX");
  if (*low > *high)
    return reader.refuse(*setting,
                         fmt::format("has MIN above MAX: give MIN:MAX, such as {}:{}", *high, *low));
  options.nodes = *high;
  if (*low < *high) options.min_nodes = *low;
}

}  // namespace

void read_recovery(SettingReader& reader, Options& options) {
  RecoveryOptions& recovery = options.recovery;
  read_nodes(reader, options);
  reader.count("spare-nodes", 0, "nodes", options.spare_nodes);
  reader.count("max-restarts", 0, "restarts", options.max_restarts);
  reader.seconds("restart-window", false, recovery.restart_window);
  reader.seconds("restart-delay", true, recovery.restart_delay);
  reader.count("no-progress-limit", 0, "failures", recovery.no_progress_limit);
  reader.seconds("node-exclusion", true, recovery.node_exclusion);
  reader.seconds("preemption-grace", true, recovery.preemption_grace);
  reader.time("time-limit", recovery.time_limit);
  reader.flag("take-over", options.take_over);
}

}  // namespace muster::launcher
