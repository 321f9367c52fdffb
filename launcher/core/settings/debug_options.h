// The flags for debugging ranks while they run: the rank that gets the launcher's stdin, and the commands
// that wrap the programs of some ranks. Pure.
#pragma once

#include "common/wire/messages.h"
#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

// Call when the limits have been read. If a wrapped rank gets the launcher's stdin, a person may be debugging
// it: turns off each hang limit that the user has not set.
void read_debug(SettingReader& reader, Options& options);

// Errors: a rank of --stdin or --wrap that is not below `world_size`.
Status check_ranks(const Options& options, std::int32_t world_size);

// In the form in which agents get them.
std::vector<wire::Wrapper> wrappers_of(const Options& options);

}  // namespace muster::launcher
