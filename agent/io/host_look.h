// Answers the questions that `launch check` asks an agent about its host: which things a job would find
// there, and which addresses of other hosts the host can connect to.
//
// An answer can take up to 20 s if Python starts slowly. No job runs at that time. Nothing is left on the
// host.
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
