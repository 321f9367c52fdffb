// --mpi: how the ranks of an MPI program find each other. Pure.
#pragma once

#include "launcher/core/settings/plan.h"
#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

void read_mpi(SettingReader& reader, Options& options);

// If the plan's MPI is kAuto, chooses one. It follows --backend mpi. Without that flag it follows what the
// program needs, if the program is on this machine.
void settle_mpi(Plan& plan, std::optional<wire::Mpi> of_program);

// Returns a warning if the program needs another MPI library than --mpi or --backend asks for. The program
// may still work, because some libraries are built for both protocols. Call this after settle_mpi().
std::optional<std::string> mpi_notice(const Plan& plan, wire::Mpi asked, wire::Mpi of_program);

// The plan's line about MPI; "" for none.
std::string mpi_text(const wire::JobSpec& job);

}  // namespace muster::launcher
