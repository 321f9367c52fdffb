// Finds programs' files: by a name that the user gave, or next to the running program.
//
// Only reads the file system.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster {

// Joins directory and name as people write it: "./train" in "/work" is "/work/train". The directory may be
// "".
std::string path_from(const std::string& directory, std::string_view name);

// Finds a program as a shell does: a name with a slash is a path from `directory`, any other is looked up in
// PATH.
struct FoundProgram {
  std::string path;  // the file, or the closest match
  int error = 0;     // why it cannot be executed: ENOENT (not found), EISDIR, EACCES, ...
};
FoundProgram look_up_program(const std::string& name, const std::string& search_path,
                             const std::string& directory);

// Finds the program `name` in the folder of `neighbour`, if that is a path, or else in PATH. Nothing if
// neither can be executed.
std::optional<std::string> look_up_beside(const std::string& neighbour, const std::string& name,
                                          const std::string& search_path, const std::string& directory);

// Returns the path of `relative` as seen from the running program's folder. The file need not exist.
Expected<std::string> beside_own_program(const std::string& relative);

// Loads the library at that path, for good, and returns its function `name`. kInternal if that fails; the
// message names `user`, the feature that needs the library.
Expected<void*> function_beside_own_program(const std::string& relative, const char* name,
                                            std::string_view user);

}  // namespace muster
