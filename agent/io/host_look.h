// What `launch check` asks an agent about its host: what a job would find there, and which addresses of other
// hosts can be reached from it.
//
// Blocking, up to 20 s for a Python that is slow to start: no job runs then. Nothing is left on the host.
#pragma once

#include "common/base/file.h"
#include "common/wire/messages.h"

namespace muster::agent {

class HostLook {
 public:
  wire::HostChecked look(const wire::CheckHost& question);

 private:
  UniqueFd listener_;  // for the other hosts, as long as this lives
};

}  // namespace muster::agent
