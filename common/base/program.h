// Where programs' files are: the one that a name stands for, and those that come with the running program.
//
// Reads the file system only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster {

// The path of `name` from the directory, as people write it: "/work/train" of "./train". "" is no directory.
std::string path_from(const std::string& directory, std::string_view name);

// As a shell does: a name with a slash is a path from the directory, any other is looked up in PATH.
struct FoundProgram {
  std::string path;  // the file, or the best there was
  int error = 0;     // why it cannot be executed: ENOENT there is none, EISDIR, EACCES, ...
};
FoundProgram look_up_program(const std::string& name, const std::string& search_path,
                             const std::string& directory);

// The program `name` in the folder of `neighbour`, where that is a path, or else in PATH; nothing if it
// cannot be executed.
std::optional<std::string> look_up_beside(const std::string& neighbour, const std::string& name,
                                          const std::string& search_path, const std::string& directory);

// The path of what lies at `relative` from the folder of the running program, whether or not it is there.
Expected<std::string> beside_own_program(const std::string& relative);

// The function `name` of the library that lies there, which is loaded and stays so. `user`: who needs it, for
// the message of kInternal.
Expected<void*> function_beside_own_program(const std::string& relative, const char* name,
                                            std::string_view user);

}  // namespace muster
