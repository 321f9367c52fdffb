// A host in namespaces of its own: pids, network, hostname, mounts. Root only.
//
// The host's first process is a child of the test, and everything on the host ends with it, even if the test
// is killed: nothing needs cleaning up by name. The host's processes are the test's children made by fork(),
// and their descendants. One thread; other threads stay outside.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "common/base/file.h"

namespace muster::hosts {

class Host {
 public:
  // `prepare` runs in the first process, within the namespaces. Processes on `above` see this host's
  // processes and may enter it (nsenter); null: only the test sees them.
  Host(std::string name, const std::function<void()>& prepare, const Host* above);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host();  // kills everything on the host, and reaps the test's children there

  const std::string& name() const { return name_; }
  // The pid of the first process, as the test sees it.
  pid_t pid() const { return pid_; }
  // Like ::fork(), but the child is on the host, and has this user id.
  pid_t fork(uid_t user = 0) const;
  // Runs a program there until its end. Returns its exit code, 128 + signal, or 127 if the program does not
  // exist. Its stdout and stderr go to `output`, or to the test's own if that is null.
  int run(const std::vector<std::string>& words, std::string* output = nullptr, uid_t user = 0) const;
  // Waits until a server accepts connections on this loopback port. False: none did in time.
  bool answers(std::uint16_t port) const;
  // Processes there, as the test sees them, without the first one and those of nested hosts.
  std::vector<pid_t> processes() const;

 private:
  std::string name_;
  pid_t pid_ = 0;
  UniqueFd leader_, space_above_, space_;
};

}  // namespace muster::hosts
