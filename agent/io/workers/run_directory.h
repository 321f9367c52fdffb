// The directory of an agent process for its workers. It has the socket for their reports, the Python module
// `muster`, and PMIx's files.
//
// It is made under TMPDIR, and only this user can use it. If the user is root, other users can also enter it,
// but not list it, because a rank of root can change its user. The destructor removes the directory with its
// content.
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
  // A zip file with the Python module `muster`, to be appended to PYTHONPATH, so that workers can import the
  // module without an installation. The agent contains this file. "" if it could not be written.
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
