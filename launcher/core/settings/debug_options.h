// Two flags with which a user debugs ranks while they run. One flag names the rank that gets the launcher's
// stdin. The other flag names ranks and a command, such as a debugger, that starts their program. Pure.
#pragma once

#include "common/wire/messages.h"
#include "launcher/core/settings/plan.h"
#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

constexpr std::int32_t kNoRank = -1;  // in Options::input: --stdin none

// Call when the limits have been read. If a rank that runs in a wrapper gets the launcher's stdin, a person
// may be debugging it. Then this turns off each hang limit that the user has not set.
void read_debug(SettingReader& reader, Options& options);

// It is an error if --stdin or --wrap names a rank that is not in `plan.nodes`, or if no node has any of the
// local ranks of --local-ranks-filter. As with torchrun, some of these may be missing.
Status check_ranks(const Options& options, const Plan& plan);

// If there is no --stdin, rank 0 gets the launcher's stdin in two cases. In the first case, stdin is a pipe
// or a file (`has_input`), as under torchrun. In the second case, the ranks meet over MPI, as under mpirun.
// Call this after settle_mpi().
void settle_input(Plan& plan, const Options& options, bool has_input);

// Returns the wrappers of --wrap in the form in which agents get them.
std::vector<wire::Wrapper> wrappers_of(const Options& options);

}  // namespace muster::launcher
