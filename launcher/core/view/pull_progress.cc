#include "launcher/core/view/pull_progress.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/core/text/foreign_json.h"

namespace muster::launcher {

namespace {

std::int64_t bytes_in(const Json& object, const std::string& key) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
  const Json& number = member(object, key);
  return number.is_number_unsigned() ? static_cast<std::int64_t>(std::min(number.get<std::uint64_t>(), kMost))
                                     : 0;
}

}  // namespace

void PullProgress::hear(std::string_view line) {
  constexpr std::size_t kMostLayers = 1000;
  const Json json = parse_json(line);
  if (const std::string error = text_in(json, "error"); !error.empty()) error_ = one_line(error);
  const std::string id = text_in(json, "id");
  const std::string status = text_in(json, "status");
  const bool is_layer = !id.empty() && !status.empty() && !status.starts_with("Pulling from");
  if (!is_layer || layers_.size() >= kMostLayers) return;
  Layer& layer = layers_[id];
  layer.done = status == "Pull complete" || status == "Already exists";
  if (status != "Downloading") return;
  layer.got = bytes_in(member(json, "progressDetail"), "current");
  layer.size = bytes_in(member(json, "progressDetail"), "total");
}

std::string PullProgress::text() const {
  constexpr double kMegabyte = 1e6;
  if (layers_.empty()) return "its registry has not answered yet";
  std::size_t done = 0;
  std::int64_t got = 0;
  std::int64_t size = 0;
  for (const auto& [id, layer] : layers_) {
    done += layer.done ? 1 : 0;
    got += layer.done ? layer.size : layer.got;
    size += layer.size;
  }
  return fmt::format("{} of {} layers, {:.0f} of {:.0f} MB", done, layers_.size(),
                     static_cast<double>(got) / kMegabyte, static_cast<double>(size) / kMegabyte);
}

}  // namespace muster::launcher
