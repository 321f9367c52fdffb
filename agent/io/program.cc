#include "agent/io/program.h"

#include <cerrno>
#include <cstring>

#include "common/base/program.h"

namespace muster::agent {

Expected<std::string> find_program(const std::string& name, const std::string& search_path,
                                   const std::string& working_directory) {
  FoundProgram found = look_up_program(name, search_path, working_directory);
  if (found.error == 0) return std::move(found.path);
  if (found.error == ENOENT && name.find('/') == std::string::npos)
    return failure(ErrorCode::kNotFound, "cannot find the program '{}' in PATH", name);
  return failure(found.error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kPermission,
                 "cannot execute {}: {}", found.path, std::strerror(found.error));
}

}  // namespace muster::agent
