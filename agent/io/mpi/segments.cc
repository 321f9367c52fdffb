#include "agent/io/mpi/segments.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr const char* kPlace = "/dev/shm";

// The files are called, for example, mpich_shm_44e29f_0, Intel_MPI_x7Rk2a and psm3_shm.0.2.1f.
constexpr std::string_view kNamesOfMpi[] = {"mpich_",         "Intel_MPI_",  "shm-col-space-",
                                            "psm2_shm.",      "psm3_shm.",   "ucx_shm_posix_",
                                            "vader_segment.", "sm_segment.", "osc_sm."};

std::string name_of_node(const std::string& job, NodeId node) {
  return fmt::format("muster-{}.node{}.", job, node);
}

std::string name_of(const SegmentsOwner& owner) {
  return fmt::format("{}{}.", name_of_node(owner.job, owner.node), owner.incarnation);
}

// Removes the files that the links in a directory name. Another user can make a directory of that name, with
// links to files that this user may remove. So the directory must be this user's.
void remove_linked(const std::filesystem::path& directory) {
  struct stat facts{};
  if (lstat(directory.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != geteuid()) return;
  std::error_code error;
  std::filesystem::directory_iterator next(directory, error);
  for (; !error && next != std::filesystem::directory_iterator(); next.increment(error)) {
    std::error_code ignored;
    const std::filesystem::path target = std::filesystem::read_symlink(next->path(), ignored);
    if (!ignored && is_segment_of_mpi(target.native())) std::filesystem::remove(target, ignored);
  }
}

void remove_where(const std::function<bool(std::string_view name)>& is_wanted) {
  std::error_code error;
  std::filesystem::directory_iterator next(kPlace, error);
  for (; !error && next != std::filesystem::directory_iterator(); next.increment(error)) {
    std::error_code ignored;
    if (!is_wanted(next->path().filename().native())) continue;
    remove_linked(next->path());
    std::filesystem::remove_all(next->path(), ignored);
  }
}

}  // namespace

Expected<std::string> make_segments_directory(const SegmentsOwner& owner, Attempt attempt) {
  remove_segments(owner);
  std::string path = fmt::format("{}/{}attempt{}", kPlace, name_of(owner), attempt);
  if (mkdir(path.c_str(), S_IRWXU) != 0) return system_failure("cannot make the directory " + path, errno);
  return path;
}

bool is_segment_of_mpi(std::string_view path) {
  if (!path.starts_with(kPlace)) return false;
  path.remove_prefix(std::string_view(kPlace).size());
  if (!path.starts_with('/')) return false;
  path.remove_prefix(1);
  return !path.contains('/') &&
         std::ranges::any_of(kNamesOfMpi, [path](std::string_view begin) { return path.starts_with(begin); });
}

void link_segments(const std::string& directory, const std::set<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code ignored;  // the link can exist already
    std::filesystem::create_symlink(path, directory + path.substr(path.rfind('/')), ignored);
  }
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
