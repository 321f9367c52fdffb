// Finds the files of programs: by a name that the user gave, or next to the running program.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster {

// Joins a directory and a name in the way in which people would write it: "/work" and "./train" give
// "/work/train". The directory can be "".
std::string path_from(const std::string& directory, std::string_view name);

// The result of look_up_program().
struct FoundProgram {
  std::string path;  // the program's file, or the best match if none can be executed
  int error = 0;     // 0, or why it cannot be executed: ENOENT (not found), EISDIR, EACCES, ...
};
FoundProgram look_up_program(const std::string& name, const std::string& search_path,
                             const std::string& directory);

// Looks for the program `name`. If `neighbour` has a slash, the program must be in the folder of `neighbour`.
// Otherwise it must be in `search_path`. Returns nothing if there is no such program that can be executed.
std::optional<std::string> look_up_beside(const std::string& neighbour, const std::string& name,
                                          const std::string& search_path, const std::string& directory);

// Returns the path of the file `relative`, which is relative to the running program's folder. The file need
// not exist.
Expected<std::string> beside_own_program(const std::string& relative);

// Loads the library whose path relative to the running program's folder is `relative`. Never unloads it.
// Returns the library's function `name`. If this fails, returns kInternal. The message names `user`, the
// feature that needs the library.
Expected<void*> function_beside_own_program(const std::string& relative, const char* name,
                                            std::string_view user);

}  // namespace muster
