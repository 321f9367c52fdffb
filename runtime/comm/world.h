// Describes the world of a worker. All of it comes from the worker's environment or from the options of
// init(). It is read and checked in this one place.
//
// The result of read_world() depends only on its arguments. It opens no files and no connections.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster {

enum class StoreKind {
  kNone,     // a world of one rank needs none
  kServe,    // this rank serves the TCPStore on host:port
  kConnect,  // the agent or rank 0 serves it
  kFile,
};

struct World {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  // The ranks of a node have consecutive numbers. place_on_node is the place of this rank among the ranks of
  // its node. It is equal to local_rank, except in jobs where local_rank is 0 on all ranks.
  int place_on_node = 0;
  int first_rank_on_node() const { return rank - place_on_node; }
  int node_rank = 0;
  int node_count = 1;

  StoreKind store = StoreKind::kNone;
  std::string host;
  std::uint16_t port = 0;
  bool agent_serves = false;  // the agent serves the kConnect store until the last rank has ended
  std::string path;           // of a kFile store

  std::string backend;  // one of kBackends; empty: Gloo, and NCCL if there is a GPU
  std::string job_id;
  std::uint64_t attempt = 0;
  int restart_count = 0;
  std::string checkpoint_dir;
  std::optional<std::int64_t> resume_step;
  std::string report_socket;
  std::string trace_file;
};

// The names of the backends of process groups. process_group.cc creates the backends.
inline constexpr std::string_view kBackends[] = {"gloo", "nccl", "mpi", "shm"};

// Returns "" if `name` is empty or is the name of a backend. Otherwise returns a text such as "backend 'zeus'
// is not one of gloo, nccl, mpi, shm". `what` is the beginning of this text, here "backend 'zeus'".
std::string refusal_of_backend(std::string_view name, std::string_view what);

// A function that returns the value of an environment variable, or nullptr if the variable is not set.
using Environment = std::function<const char*(const char* name)>;

// Reads the world of this worker. `init_method`, `rank` and `world_size` come from InitOptions. An error
// names the variable or the option. It also says what its value is and what would be right.
Expected<World> read_world(const std::string& init_method, int rank, int world_size,
                           const Environment& environment);

}  // namespace muster
