#include "agent/io/mpi/segments.h"

#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <sys/stat.h>

#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr const char* kPlace = "/dev/shm";

std::string name_of_node(const std::string& job, NodeId node) {
  return fmt::format("muster-{}.node{}.", job, node);
}

std::string name_of(const SegmentsOwner& owner) {
  return fmt::format("{}{}.", name_of_node(owner.job, owner.node), owner.incarnation);
}

void remove_where(const std::function<bool(std::string_view name)>& is_wanted) {
  std::error_code error;
  std::filesystem::directory_iterator next(kPlace, error);
  for (; !error && next != std::filesystem::directory_iterator(); next.increment(error)) {
    std::error_code ignored;
    if (is_wanted(next->path().filename().native())) std::filesystem::remove_all(next->path(), ignored);
  }
}

}  // namespace

Expected<std::string> make_segments_directory(const SegmentsOwner& owner, Attempt attempt) {
  remove_segments(owner);
  std::string path = fmt::format("{}/{}attempt{}", kPlace, name_of(owner), attempt);
  if (mkdir(path.c_str(), S_IRWXU) != 0) return system_failure("cannot make the directory " + path, errno);
  return path;
}

void remove_segments(const SegmentsOwner& owner) {
  remove_where([start = name_of(owner)](std::string_view name) { return name.starts_with(start); });
}

void remove_segments_below(const std::string& job, NodeId node, std::optional<Incarnation> below) {
  remove_where([start = name_of_node(job, node), below](std::string_view name) {
    if (!name.starts_with(start)) return false;
    name.remove_prefix(start.size());
    const auto incarnation = parse_number<std::uint32_t>(name.substr(0, name.find('.')));
    return incarnation && (!below || Incarnation(*incarnation) < *below);
  });
}

}  // namespace muster::agent
