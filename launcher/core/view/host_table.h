// The results of `launch check --hosts`, as a table and as JSON.
//
// Pure; launcher/io/fleet/host_survey.h collects them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"

namespace muster::launcher {

struct HostLink {  // from one host to another, at the address that it would use as MASTER_ADDR
  std::string host{};
  std::string address{};
  Duration time{};      // time to connect over TCP
  std::string error{};  // why it failed; else empty
};

struct HostReport {
  std::string host{};
  std::string unreachable{};  // why no agent started, answered or can be used; then the rest is empty
  std::string control{};      // how the launcher reaches the agent: tcp, stdio
  std::string version{};      // of the agent
  wire::HostChecked found{};
  Duration clock_offset{};  // of its wall clock from this host's
  std::vector<HostLink> links{};
};

// Optional checks of each host.
struct HostDemand {
  bool program = false;
  std::string checkpoint_directory{};  // empty: none
};

// Returns the problems that would stop a job. Each is one line with the host's name.
std::vector<std::string> obstacles(const std::vector<HostReport>& reports, const HostDemand& demand);
// `columns` is the width of the terminal. 0 means that the table can have any width.
std::string hosts_as_table(const std::vector<HostReport>& reports, const HostDemand& demand,
                           std::size_t columns = 0);
std::string hosts_as_json(const std::vector<HostReport>& reports, const HostDemand& demand);

}  // namespace muster::launcher
