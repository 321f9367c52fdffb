// The flags for debugging ranks while they run: the rank that gets the launcher's stdin, and the commands
// that wrap the programs of some ranks. Pure.
#pragma once

#include "common/wire/messages.h"
#include "launcher/core/settings/plan.h"
#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

constexpr std::int32_t kNoRank = -1;  // in Options::input: --stdin none

// Call when the limits have been read. If a wrapped rank gets the launcher's stdin, a person may be debugging
// it: turns off each hang limit that the user has not set.
void read_debug(SettingReader& reader, Options& options);

// Errors: a rank of --stdin or --wrap that is not below `world_size`.
Status check_ranks(const Options& options, std::int32_t world_size);

// Without --stdin, rank 0 gets the launcher's stdin in two cases: stdin is a pipe or a file (`has_input`), as
// under torchrun; or the ranks meet over MPI, as under mpirun. Call after settle_mpi().
void settle_input(Plan& plan, const Options& options, bool has_input);

// Returns the wrappers in the form in which agents get them.
std::vector<wire::Wrapper> wrappers_of(const Options& options);

}  // namespace muster::launcher
