// Answers the questions of `launch check` about an agent's host: what a job would find there, and which
// addresses of other hosts it can connect to.
//
// Blocks for up to 20 s if Python starts slowly; no job runs then. Leaves nothing on the host.
#pragma once

#include "common/base/file.h"
#include "common/wire/messages.h"

namespace muster::agent {

class HostLook {
 public:
  wire::HostChecked look(const wire::CheckHost& question);

 private:
  UniqueFd listener_;  // for the other hosts, while this object lives
};

}  // namespace muster::agent
