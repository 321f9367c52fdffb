#include "common/base/program.h"

#include <algorithm>
#include <cerrno>
#include <dlfcn.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/text.h"

namespace muster {

namespace {

// Returns 0 if the file can be executed. Otherwise returns the errno that says why not.
int why_not(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) < 0) return errno == ENOTDIR ? ENOENT : errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

}  // namespace

std::string path_from(const std::string& directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  while (name.starts_with("./")) name.remove_prefix(std::min(name.find_first_not_of('/', 1), name.size()));
  return (std::filesystem::path(directory) / name).string();
}

FoundProgram look_up_program(const std::string& name, const std::string& search_path,
                             const std::string& directory) {
  const std::filesystem::path base(directory);
  if (name.find('/') != std::string::npos) {
    const std::string path = path_from(directory, name);
    return {path, why_not(path)};
  }
  FoundProgram best{name, ENOENT};
  if (name.empty()) return best;
  for (const std::string_view folder : split(search_path, ':')) {
    FoundProgram found{(base / folder / name).string(), 0};
    found.error = why_not(found.path);
    if (found.error == 0) return found;
    if (found.error == EACCES) best = std::move(found);
  }
  return best;
}

std::optional<std::string> look_up_beside(const std::string& neighbour, const std::string& name,
                                          const std::string& search_path, const std::string& directory) {
  if (const std::size_t end = neighbour.rfind('/'); end != std::string::npos) {
    FoundProgram beside = look_up_program(neighbour.substr(0, end + 1) + name, "", directory);
    if (beside.error == 0) return std::move(beside.path);
  }
  FoundProgram found = look_up_program(name, search_path, directory);
  return found.error == 0 ? std::optional(std::move(found.path)) : std::nullopt;
}

Expected<std::string> beside_own_program(const std::string& relative) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return system_failure("cannot read /proc/self/exe", error.value());
  return (own.parent_path() / relative).lexically_normal().string();
}

Expected<void*> function_beside_own_program(const std::string& relative, const char* name,
                                            std::string_view user) {
  const auto file = beside_own_program(relative);
  if (!file) return std::unexpected(file.error());
  void* const library = dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const function = library == nullptr ? nullptr : dlsym(library, name);
  if (function != nullptr) return function;
  std::string_view why = dlerror();  // starts with the file's name if the file itself is the problem
  if (why.starts_with(*file + ": ")) why.remove_prefix(file->size() + 2);
  return failure(ErrorCode::kInternal, "cannot load {}, which {} needs: {}", *file, user, why);
}

}  // namespace muster
