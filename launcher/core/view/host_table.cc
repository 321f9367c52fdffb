#include "launcher/core/view/host_table.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/core/text/table.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

std::string free_text(std::int64_t bytes) {
  return bytes < 0 ? "?" : size_text(static_cast<std::uint64_t>(bytes));
}

std::string link_text(const HostLink& link) {
  return link.error.empty() ? in_milliseconds(link.time) : "-";
}

// Returns a line with numbers. If a link fails, a table of the links between hosts follows it. If the
// terminal is too narrow, the table is left out: obstacles() also names each link that fails.
std::string links_text(const std::vector<HostReport>& reports, std::size_t columns) {
  std::size_t count = 0, good = 0;
  Duration least = Duration::max(), most{};
  for (const HostReport& from : reports) {
    for (const HostLink& link : from.links) {
      ++count;
      if (!link.error.empty()) continue;
      ++good;
      least = std::min(least, link.time);
      most = std::max(most, link.time);
    }
  }
  if (count == 0) return "";
  std::string text = fmt::format("\nlinks: {} of {} work", good, count);
  if (good > 0) text += fmt::format(", in {} to {}", in_milliseconds(least), in_milliseconds(most));
  text += "\n";
  if (good == count) return text;
  std::vector<Column> titles{{"from"}};
  for (const HostReport& to : reports) titles.push_back({to.host});
  std::vector<Row> rows;
  for (const HostReport& from : reports) {
    Row row{from.host};
    for (const HostReport& to : reports) {
      const auto link = std::ranges::find(from.links, to.host, &HostLink::host);
      row.push_back(link == from.links.end() ? "." : link_text(*link));
    }
    rows.push_back(std::move(row));
  }
  const std::string table = table_text(titles, std::move(rows), 0);
  return columns == 0 || fits(table, columns) ? text + table : text;
}

}  // namespace

std::vector<std::string> obstacles(const std::vector<HostReport>& reports, const HostDemand& demand) {
  std::vector<std::string> lines;
  for (const HostReport& each : reports) {
    const auto add = [&](const std::string& what) {
      lines.push_back(fmt::format("{}: {}", each.host, what));
    };
    if (!each.unreachable.empty()) {
      // The bootstrap's message already names the host.
      const std::string prefix = "host " + each.host + ": ";
      add(each.unreachable.starts_with(prefix) ? each.unreachable.substr(prefix.size()) : each.unreachable);
      continue;
    }
    if (!each.found.directory_error.empty())
      add(fmt::format("the working directory {} (--sync DIR copies a directory to all hosts)",
                      each.found.directory_error));
    if (demand.program && !each.found.program_error.empty()) add(each.found.program_error);
    if (reports.size() > 1 && !each.found.checkpoint_error.empty())
      add(fmt::format("--checkpoint-dir: {} {}", demand.checkpoint_directory, each.found.checkpoint_error));
    for (const HostLink& link : each.links) {
      if (!link.error.empty())
        add(fmt::format("does not reach {} at {}: {}", link.host, link.address, link.error));
    }
  }
  return lines;
}

std::string hosts_as_table(const std::vector<HostReport>& reports, const HostDemand& demand,
                           std::size_t columns) {
  const bool checkpoints = !demand.checkpoint_directory.empty();
  constexpr std::size_t kLeastOfHost = 10;
  constexpr auto kLeftOut = Narrow::kLeftOut;
  std::vector<Column> titles{{"host", false, Narrow::kCut, kLeastOfHost},
                             {"reach", false, kLeftOut},
                             {"agent", false, kLeftOut},
                             {"torch"},
                             {"GPUs"},
                             {"clock", false, kLeftOut},
                             {"logs"}};
  if (demand.program) titles.insert(titles.begin() + 3, {"program"});
  if (checkpoints) titles.push_back({"checkpoints"});
  std::vector<Row> rows;
  for (const HostReport& each : reports) {
    if (!each.unreachable.empty()) {
      rows.push_back({each.host, "FAIL"});
      continue;
    }
    const wire::HostChecked& found = each.found;
    Row row{each.host,
            each.control,
            each.version,
            found.torch.empty() ? "-" : found.torch,
            std::to_string(found.gpu_count),
            fmt::format("{:+.3f} s", in_seconds(each.clock_offset)),
            free_text(found.log_free_bytes) + " free"};
    if (demand.program) {
      const bool good = found.program_error.empty() && found.directory_error.empty();
      row.insert(row.begin() + 3, good ? "ok" : "FAIL");
    }
    if (checkpoints) row.push_back(free_text(found.checkpoint_free_bytes) + " free");
    rows.push_back(std::move(row));
  }
  std::string text = table_text(titles, std::move(rows), columns) + links_text(reports, columns);
  const auto wrong = obstacles(reports, demand);
  if (!wrong.empty()) text += "\n";
  std::vector<Row> failures;
  for (const std::string& line : wrong) failures.push_back({"FAIL", line});
  text += table_text({{}, {"", false, Narrow::kWrap}}, std::move(failures), columns);
  return text;
}

std::string hosts_as_json(const std::vector<HostReport>& reports, const HostDemand& demand) {
  using nlohmann::ordered_json;
  ordered_json hosts = ordered_json::array();
  for (const HostReport& each : reports) {
    ordered_json host = {{"host", each.host}, {"reached", each.unreachable.empty()}};
    if (!each.unreachable.empty()) {
      host["error"] = each.unreachable;
      hosts.push_back(std::move(host));
      continue;
    }
    ordered_json links = ordered_json::array();
    for (const HostLink& link : each.links) {
      ordered_json entry = {{"host", link.host}, {"address", link.address}, {"works", link.error.empty()}};
      if (link.error.empty()) {
        entry["ms"] = in_seconds(link.time) * 1000;
      } else {
        entry["error"] = link.error;
      }
      links.push_back(std::move(entry));
    }
    const wire::HostChecked& found = each.found;
    host["control"] = each.control;
    host["version"] = each.version;
    host["directory_error"] = found.directory_error;
    host["program_error"] = demand.program ? found.program_error : "";
    host["checkpoint_error"] = found.checkpoint_error;
    host["torch"] = found.torch;
    host["gpus"] = found.gpu_count;
    host["clock_offset_s"] = in_seconds(each.clock_offset);
    host["log_free_bytes"] = found.log_free_bytes;
    host["checkpoint_free_bytes"] = found.checkpoint_free_bytes;
    host["links"] = std::move(links);
    hosts.push_back(std::move(host));
  }
  const auto wrong = obstacles(reports, demand);
  const ordered_json json = {{"fit", wrong.empty()}, {"obstacles", wrong}, {"hosts", std::move(hosts)}};
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace muster::launcher
