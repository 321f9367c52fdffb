#include "runtime/comm/flight_record.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>
#include <utility>

#include "runtime/comm/nccl/backend.h"

namespace muster {
namespace {

// Returns a text such as "all_reduce of Float [4, 2]". It has the operation, and the type and the sizes of
// the first input tensor.
std::string text_of_entry(const nlohmann::json& entry) {
  std::string name = entry.at("profiling_name");
  name.erase(0, name.find(':') + 1);
  if (entry.at("input_dtypes").empty() || entry.at("input_sizes").empty()) return name;
  std::string sizes;
  for (const auto& size : entry.at("input_sizes").front())
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", size.get<std::int64_t>());
  return fmt::format("{} of {} [{}]", name, entry.at("input_dtypes").front().get<std::string>(), sizes);
}

// Returns the name that the program has given to a group. The number of the group follows in parentheses,
// because two groups can have the same name. If the program has not given a name, the name is the number,
// which is then not repeated.
std::string name_of_group(const nlohmann::json& group) {
  constexpr std::string_view kOurs = "muster/";
  std::string number = group.at(0);
  const std::string name = group.at(1);
  if (!number.starts_with(kOurs) || number == "muster/world") return name;
  number.erase(0, kOurs.size());
  std::ranges::replace(number, '-', ' ');
  return number == name ? name : fmt::format("{} ({})", name, number);
}

}  // namespace

std::vector<std::string> lines_of_record(const std::string& json) {
  std::vector<std::string> lines;
  const nlohmann::json record = nlohmann::json::parse(json, nullptr, false);
  if (!record.is_object()) return lines;
  try {
    std::map<std::int64_t, const nlohmann::json*> newest;  // by group
    for (const auto& entry : record.at("entries"))
      if (!entry.at("is_p2p").get<bool>()) newest[entry.at("pg_id")] = &entry;
    for (const auto& [group, entry] : newest) {
      const auto& status = record.at("pg_status").at(fmt::format("{}", group));
      const std::int64_t ended =
          std::atoll(status.at("last_completed_collective").get<std::string>().c_str());
      lines.push_back(fmt::format("newest collective in group '{}': #{} {}, finished up to #{}",
                                  name_of_group(entry->at("process_group")),
                                  entry->at("collective_seq_id").get<std::int64_t>(), text_of_entry(*entry),
                                  std::max<std::int64_t>(ended, 0)));
    }
  } catch (const nlohmann::json::exception&) {
    return {};  // another version of torch writes another format
  }
  return lines;
}

std::vector<FlightRecord> flight_records() {
  std::vector<FlightRecord> records;
  try {
    const auto add = [&](const char* backend, std::string json) {
      std::vector<std::string> lines = lines_of_record(json);
      if (!lines.empty()) records.push_back({backend, std::move(json), std::move(lines)});
    };
    add("gloo", c10d::dump_fr_trace_json(/*includeCollectives=*/true, /*onlyActive=*/false));
    add("nccl", nccl_record());
  } catch (const std::exception&) {
    // After an error there are fewer records, or none.
  }
  return records;
}

}  // namespace muster
