#include "agent/io/program.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace muster::agent {

namespace {

// 0, or the errno that says why it cannot be executed.
int why_not(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) < 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

}  // namespace

Expected<std::string> find_program(const std::string& name, const std::string& search_path,
                                   const std::string& working_directory) {
  const std::filesystem::path base(working_directory);
  if (name.find('/') != std::string::npos) {
    std::string path = (base / name).string();
    const int error = why_not(path);
    if (error == 0) return path;
    return failure(error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kPermission,
                   "cannot execute {}: {}", path, std::strerror(error));
  }
  std::string not_executable;
  std::string_view rest = search_path;
  while (!name.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    std::string path = (base / rest.substr(0, end) / name).string();
    const int error = why_not(path);
    if (error == 0) return path;
    if (error == EACCES) not_executable = path;
    if (end == rest.size()) break;
    rest.remove_prefix(end + 1);
  }
  if (!not_executable.empty()) {
    return failure(ErrorCode::kPermission, "cannot execute {}: {}", not_executable, std::strerror(EACCES));
  }
  return failure(ErrorCode::kNotFound, "cannot find the program '{}' in PATH", name);
}

}  // namespace muster::agent
