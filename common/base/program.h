// Which file a program's name stands for.
//
// As a shell does: a name with a slash is a path from the directory, any other is looked up in PATH. Reads
// the file system only.
#pragma once

#include <string>

namespace muster {

struct FoundProgram {
  std::string path;  // the file, or the best there was
  int error = 0;     // why it cannot be executed: ENOENT there is none, EISDIR, EACCES, ...
};
FoundProgram look_up_program(const std::string& name, const std::string& search_path,
                             const std::string& directory);

}  // namespace muster
