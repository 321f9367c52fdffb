// The flags for looking into ranks while they run: whose stdin the launcher's is, and what stands before the
// program of which rank. Pure.
#pragma once

#include "common/wire/messages.h"
#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

// After the limits have been read: a rank that is wrapped and gets the launcher's stdin waits for a person,
// and nothing is watched for hangs that the user has set no limit for.
void read_debug(SettingReader& reader, Options& options);

// Errors: a rank that is none of `world_size`.
Status check_ranks(const Options& options, std::int32_t world_size);

// As an agent gets them.
std::vector<wire::Wrapper> wrappers_of(const Options& options);

}  // namespace muster::launcher
