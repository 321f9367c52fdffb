// --mpi: how the ranks of an MPI program find each other. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "launcher/core/settings/plan.h"
#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

void read_mpi(SettingReader& reader, Options& options);

// Reads `# muster: --mpi pmix` from the first comment of a script. The comment consists of the lines at the
// beginning of the file that begin with '#'. Returns nothing if the comment has no such line. Returns an
// error if the line says anything else.
Expected<std::optional<wire::Mpi>> mpi_in_comment(std::string_view script);

// Chooses the MPI of a plan whose MPI is kAuto. With --backend mpi this is PMIx. With other backends it is
// `of_program`, the MPI that the program needs. `of_program` is nullopt if the program is not on this
// machine. Then the plan's MPI stays kAuto. It also stays kAuto if the program names no MPI library.
void settle_mpi(Plan& plan, std::optional<wire::Mpi> of_program);

// Returns a warning if the program needs another MPI library than --mpi or --backend asks for. The program
// may still work, because some libraries are built for both protocols. Call this after settle_mpi().
std::optional<std::string> mpi_notice(const Plan& plan, wire::Mpi asked, wire::Mpi of_program);

// Whether this configuration of Open MPI 4.1 (openmpi-mca-params.conf) leaves out osc/pt2pt, the component
// for windows between hosts over Ethernet. Debian's configuration does.
bool leaves_out_windows(std::string_view configuration);

// The plan's line about MPI; "" for none.
std::string mpi_text(const Plan& plan);

}  // namespace muster::launcher
