// --mpi: how the ranks of an MPI program find each other. Pure.
#pragma once

#include "launcher/core/settings/plan.h"
#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

void read_mpi(SettingReader& reader, Options& options);

// Settles it, if the user left it open, by --backend mpi, or by the program if that is on this machine. As
// under mpirun, rank 0 gets the input of an MPI job, unless --stdin says who does.
void settle_mpi(Plan& plan, std::optional<wire::Mpi> of_program);

// What the plan says about it; "": nothing.
std::string mpi_text(const wire::JobSpec& job);

}  // namespace muster::launcher
