// What `launch check --hosts` found out about hosts, for people and for machines.
//
// Pure; how it was found out is launcher/io/fleet/host_survey.h's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"

namespace muster::launcher {

struct HostLink {  // from one host to another, by the address that it would have as MASTER_ADDR
  std::string host{};
  std::string address{};
  Duration time{};      // that a TCP connection took
  std::string error{};  // why there is none; or empty
};

struct HostReport {
  std::string host{};
  std::string unreachable{};  // why no agent came, or none answered; then the rest is empty
  std::string control{};      // how the agent is spoken to: tcp, stdio
  std::string version{};      // of the agent
  wire::HostChecked found{};
  Duration clock_offset{};  // of its wall clock against this host's
  std::vector<HostLink> links{};
};

// What was asked for beside the hosts.
struct HostDemand {
  bool program = false;
  std::string checkpoint_directory{};  // empty: none
};

// What would stop a job, each a line that names the host.
std::vector<std::string> obstacles(const std::vector<HostReport>& reports, const HostDemand& demand);
std::string hosts_as_table(const std::vector<HostReport>& reports, const HostDemand& demand);
std::string hosts_as_json(const std::vector<HostReport>& reports, const HostDemand& demand);

}  // namespace muster::launcher
