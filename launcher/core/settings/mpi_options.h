// --mpi: how the ranks of an MPI program find each other. Pure.
#pragma once

#include "launcher/core/settings/plan.h"
#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

void read_mpi(SettingReader& reader, Options& options);

// Settles it, if the user left it open, by --backend mpi, or by the program if that is on this machine. As
// under mpirun, rank 0 gets the input of an MPI job, unless --stdin says who does.
void settle_mpi(Plan& plan, std::optional<wire::Mpi> of_program);

// One line where the program names the other MPI as needed than the one that was asked for, by --mpi or
// --backend; a library that was built for both kinds may have it so. Of a settled plan.
std::optional<std::string> mpi_notice(const Plan& plan, wire::Mpi asked, wire::Mpi of_program);

// What the plan says about it; "": nothing.
std::string mpi_text(const wire::JobSpec& job);

}  // namespace muster::launcher
