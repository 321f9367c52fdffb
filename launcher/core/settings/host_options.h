// Reads the flags for the hosts of a job. Some of these flags say how the launcher starts the agents on the
// hosts and talks to them. Pure: the caller has read the files.
#pragma once

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

// Call when the number of nodes has been read. If --nodes is not given, the job has one node on each host.
void read_hosts(SettingReader& reader, const Surroundings& here, Options& options);

// Splits a command line such as `lxc exec {host} --` into words, as a shell would. It understands quotes and
// backslashes, but expands no variables or patterns. Returns nullopt if a quote is not closed.
std::optional<std::vector<std::string>> shell_words(std::string_view text);

}  // namespace muster::launcher
