// A host in namespaces of its own: processes, network, hostname, mounts. Root only.
//
// The first process of the host is a child of the test, and everything on the host ends with that process,
// also when the test is killed: nothing has to be cleaned up by name. The host's processes are children of
// the test that fork() made, and their descendants. One thread; other threads stay outside.
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
  // `prepare` runs in the first process, within the namespaces. Processes of this host are seen by those on
  // `above` too, who may enter it (nsenter); null: by the test alone.
  Host(std::string name, const std::function<void()>& prepare, const Host* above);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host();  // kills all that runs there, and reaps the test's children among them

  const std::string& name() const { return name_; }
  // The first process, as the test sees it.
  pid_t pid() const { return pid_; }
  // As ::fork(), but the child is on the host. With a user id other than 0 the child is that user.
  pid_t fork(uid_t user = 0) const;
  // Runs a program there until its end: its exit code, or 128 + signal; 127 if there is none. What it prints
  // to both streams goes to `output` when that is given, and else to the test's own.
  int run(const std::vector<std::string>& words, std::string* output = nullptr, uid_t user = 0) const;
  // Waits until somebody takes connections on this port of its loopback: whether that comes.
  bool answers(std::uint16_t port) const;
  // Processes there as the test sees them, without the first one, and without those of hosts below.
  std::vector<pid_t> processes() const;

 private:
  std::string name_;
  pid_t pid_ = 0;
  UniqueFd leader_, space_above_, space_;
};

}  // namespace muster::hosts
