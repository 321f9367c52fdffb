// Delays every TCP connection within one network namespace: a child process that iptables redirects them to.
//
// Bytes arrive `delay` later, in both directions, in order. The destructor ends it. Only for a namespace of
// the test's own: it redirects all TCP connections on loopback.
#pragma once

#include <chrono>
#include <sys/types.h>

namespace muster::hosts {

class DelayProxy {
 public:
  explicit DelayProxy(std::chrono::milliseconds delay);
  DelayProxy(const DelayProxy&) = delete;
  DelayProxy& operator=(const DelayProxy&) = delete;
  ~DelayProxy();

 private:
  pid_t pid_ = 0;
};

// Runs a system program (iptables); a failure stops the test program.
void run_command(const std::string& command);

}  // namespace muster::hosts
