// The directory of an agent process for its workers: the socket for their reports, the Python module
// `muster`, and the files of MPI.
//
// It is new, under TMPDIR, and only for this user. But a rank of root can change its user, so root's agent
// lets other users enter the directory without listing it. The destructor removes it with its content.
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
  // Short enough for the sockets in it. Other users can open a file in it if they know the file's name and
  // the file's mode lets them.
  const std::string& path() const { return path_; }
  // Workers can import the module `muster` from this file, which the agent contains, wherever the agent was
  // delivered, without an installation. To be appended to PYTHONPATH: Python imports from the file as from a
  // folder. "" if it could not be written.
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
