// What is wrong with how an MPI rank ended, by what its agent's server saw of it. Pure.
#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>

#include "common/wire/messages.h"

namespace muster::agent {

// Of one rank.
struct MpiLife {
  bool connected = false;  // MPI_Init has begun
  bool finalized = false;
  std::string aborted{};  // abort_text(); "": it was not
  int abort_code = 0;
};

// Open MPI's message is "N/A" where it has none.
inline std::string abort_text(int code, std::string_view message) {
  if (message == "N/A") message = "";
  return fmt::format("called MPI_Abort with {}{}{}", code, message.empty() ? "" : ": ", message);
}

inline std::string spawn_remark() {
  return "a rank called MPI_Comm_spawn, which fails: launch itself starts all ranks, "
         "as many as --nodes and --gpus-per-node say";
}

// "" if nothing is. Libraries end a rank that aborts in several ways: its exit code is what it asked for.
// Peers of a rank that leaves without MPI_Finalize wait for ever, whatever its exit code.
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
