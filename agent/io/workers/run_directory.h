// The directory that an agent process has for its workers. It contains the socket for their reports, the
// Python module `muster`, and the files of PMIx.
//
// It is made under TMPDIR. Only this user can use it, with one exception: if the user is root, other users
// can enter it, but not list it, because a rank of root can change its user. The destructor removes the
// directory with its content.
#pragma once

#include <memory>
#include <string>

#include "common/base/error.h"

namespace muster::agent {

class RunDirectory {
 public:
  static Expected<std::unique_ptr<RunDirectory>> make();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  ~RunDirectory();
  // The directory's path. It is short enough for the paths of sockets in the directory.
  const std::string& path() const { return path_; }
  // The path of a zip file with the Python module `muster`, which the agent contains. It is appended to
  // PYTHONPATH. So workers can import the module although it is not installed. The path is "" if the file
  // could not be written.
  const std::string& python_module() const { return python_module_; }

 private:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}
  Status write_python_module();

  std::string path_;
  std::string python_module_;
};

// Removes the directory and all files in it.
void remove_run_directory(const std::string& directory);

}  // namespace muster::agent
