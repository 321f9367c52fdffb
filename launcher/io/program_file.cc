#include "launcher/io/program_file.h"

#include <algorithm>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace muster::launcher {

namespace {

bool is_directory(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

Status check_file(const std::string& path, int mode) {
  if (access(path.c_str(), F_OK) != 0) return failure(ErrorCode::kNotFound, "{}: not found", path);
  if (is_directory(path)) return failure(ErrorCode::kPermission, "{}: is a directory", path);
  if (access(path.c_str(), mode) != 0)
    return failure(ErrorCode::kPermission, "{}: may not be {}", path, mode == R_OK ? "read" : "executed");
  return {};
}

Status check_executable(const std::string& name, std::string_view search_path) {
  if (name.find('/') != std::string::npos) return check_file(name, X_OK);
  bool found = false;
  while (true) {
    const std::size_t end = std::min(search_path.find(':'), search_path.size());
    const std::string folder(search_path.substr(0, end));
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (check_file(path, X_OK)) return {};
    found = found || (access(path.c_str(), F_OK) == 0 && !is_directory(path));
    if (end == search_path.size()) break;
    search_path.remove_prefix(end + 1);
  }
  if (found) return failure(ErrorCode::kPermission, "{}: found in PATH, but may not be executed", name);
  const bool here = access(name.c_str(), X_OK) == 0 && !is_directory(name);
  return failure(ErrorCode::kNotFound, "{}: not found in PATH{}", name,
                 here ? fmt::format(": did you mean ./{}?", name) : "");
}

}  // namespace

Status check_program(const std::vector<std::string>& command, const std::string& search_path) {
  if (Status executable = check_executable(command.front(), search_path); !executable) return executable;
  // `python3 -u FILE`, as the plan makes it.
  if (command.size() > 2 && command[1] == "-u" && command[2].ends_with(".py"))
    return check_file(command[2], R_OK);
  return {};
}

}  // namespace muster::launcher
