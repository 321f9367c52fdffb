// The PMIx server for Open MPI's ranks.
//
// What needs the PMIx library lies in a module, libmuster_pmix.so, which is loaded for a job's first attempt
// that needs it: the library's threads, memory and start are no other job's. Calls come from the agent's one
// thread; the library's own thread calls the listener.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/wire/messages.h"

namespace muster::agent {

// In PMIx's thread; must not call back, and not wait.
class PmixListener {
 public:
  virtual ~PmixListener() = default;
  // A fence that is not answered within the limit, if there is one, is to be withdrawn.
  virtual void asked(wire::MpiAsked asked, std::optional<std::chrono::seconds> limit) = 0;
  virtual void remarked(std::string what) = 0;  // a line for the user
};

// The module. Nothing is thrown out of it.
class Pmix {
 public:
  struct Attempt {
    std::string name;                       // of its namespace: no other attempt has it
    std::string directory;                  // for the library's files
    std::vector<std::int32_t> rank_counts;  // of each node
    std::size_t own = 0;                    // this node's place among them
  };
  // Loads the module at the first call; it stays until the program ends. An error names the file.
  static Expected<Pmix*> load();

  // The listener outlives close(). One attempt at a time.
  virtual Status open(const Attempt& attempt, PmixListener& listener) = 0;
  // What a rank of this node needs in its environment: NAME=value; the names are the same for all.
  virtual Expected<std::vector<std::string>> entries_for(Rank rank) = 0;
  virtual void hear(const wire::MpiTold& told) = 0;
  virtual std::string fault_of(Rank rank, wire::WorkerExited& exited) = 0;
  // Nothing comes to the listener after this.
  virtual void close() = 0;
  // Ends the library's threads; nothing follows.
  virtual void end() = 0;

 protected:
  ~Pmix() = default;
};

}  // namespace muster::agent

// The module's one entry.
extern "C" muster::agent::Pmix* muster_pmix();
