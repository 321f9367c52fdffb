// Answers the questions of `launch check` about an agent's host: what a job would find there, and which
// addresses of other hosts it can connect to.
//
// Can block for 20 s if Python starts slowly; no job runs at that time. Leaves nothing on the host.
#pragma once

#include "common/base/file.h"
#include "common/wire/messages.h"

namespace muster::agent {

class HostLook {
 public:
  wire::HostChecked look(const wire::CheckHost& question);

 private:
  UniqueFd listener_;  // other hosts try to connect to it while this object lives
};

}  // namespace muster::agent
