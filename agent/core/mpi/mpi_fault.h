// Decides whether an MPI rank ended properly, from what its agent's MPI server saw. Pure functions.
#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>

#include "common/wire/messages.h"

namespace muster::agent {

// The states of one rank's MPI, as its MPI server has seen them.
struct MpiLife {
  bool connected = false;  // MPI_Init has begun
  bool finalized = false;
  std::string aborted{};  // abort_text(); "": the rank did not abort
  int abort_code = 0;
};

// Returns the text of the fault. If the program gave no message, Open MPI passes "N/A".
inline std::string abort_text(int code, std::string_view message) {
  if (message == "N/A") message = "";
  return fmt::format("called MPI_Abort with {}{}{}", code, message.empty() ? "" : ": ", message);
}

inline std::string spawn_remark() {
  return "a rank called MPI_Comm_spawn, which fails: launch itself starts all ranks, "
         "as many as --nodes and --gpus-per-node say";
}

// Returns the fault of a rank, or "" if there is none. If a rank has called MPI_Init and exits with code 0,
// but without MPI_Finalize, that is a fault, because its peers would wait forever. If the rank has called
// MPI_Abort, `exited` gets the code that the rank passed to MPI_Abort. The real exit code can be another one,
// because the MPI libraries end such ranks in different ways.
inline std::string mpi_fault(const MpiLife& life, wire::WorkerExited& exited) {
  if (!life.aborted.empty()) {
    exited.signal = 0;
    exited.exit_code = life.abort_code & 0xff;
    return life.aborted;
  }
  const bool left = life.connected && !life.finalized && exited.exit_code == 0 && exited.signal == 0;
  return left ? "left with code 0 and without MPI_Finalize" : "";
}

}  // namespace muster::agent
