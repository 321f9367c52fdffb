// The flags for a job's hosts, and for how the launcher starts their agents and talks to them. Pure: the
// caller has read the files.
#pragma once

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

// Call when the number of nodes has been read. Without --nodes the job has a node for each host.
void read_hosts(SettingReader& reader, const Surroundings& here, Options& options);

// The words of a command line such as `lxc exec {host} --`, split as a shell would: handles quotes and
// backslashes, expands nothing. nullopt if a quote is not closed.
std::optional<std::vector<std::string>> shell_words(std::string_view text);

}  // namespace muster::launcher
