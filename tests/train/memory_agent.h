// A process that gives memory to a test's ranks as an agent does, over the real socket, and outlives the
// ranks.
//
// It is forked, so that the test's own process has no extra thread; the destructor kills it.
// It is forked, so that the test's own process has no thread; it is killed with this object.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace muster {

class MemoryAgent {
 public:
  explicit MemoryAgent(std::uint64_t limit_bytes);
  ~MemoryAgent();
  MemoryAgent(const MemoryAgent&) = delete;
  MemoryAgent& operator=(const MemoryAgent&) = delete;
  const std::string& socket() const { return socket_; }  // MUSTER_SOCKET

 private:
  pid_t pid_ = -1;
  std::string socket_;
};

}  // namespace muster
