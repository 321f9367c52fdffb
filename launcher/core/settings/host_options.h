// The flags that say which hosts a job has, and how their agents are started and spoken to. Pure: files have
// been read by the caller.
#pragma once

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

// After the number of nodes has been read: without --nodes the job has as many as there are hosts.
void read_hosts(SettingReader& reader, const Surroundings& here, Options& options);

// The words of a command line such as `lxc exec {host} --`, as a shell would split them: quotes and
// backslashes are understood, nothing is expanded. Empty: a quote is not closed.
std::optional<std::vector<std::string>> shell_words(std::string_view text);

}  // namespace muster::launcher
