// The PMIx server for Open MPI's ranks.
//
// The code that needs the PMIx library is in a module, libmuster_pmix.so, loaded for the first attempt that
// needs it, so that other jobs do not pay for the library's threads, memory and start. The agent's one thread
// makes the calls; the library's own thread calls the listener.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/wire/messages.h"

namespace muster::agent {

// Called on PMIx's thread. The functions must neither call back nor wait.
class PmixListener {
 public:
  virtual ~PmixListener() = default;
  // Passes on a question for the launcher. With a `limit`, the listener withdraws a fence (a barrier of
  // ranks) that is not answered within the limit.
  virtual void asked(wire::MpiAsked asked, std::optional<std::chrono::seconds> limit) = 0;
  virtual void remarked(std::string what) = 0;  // a line for the user
};

// The interface of the module. No exception leaves the module.
class Pmix {
 public:
  struct Attempt {
    std::string name;                       // of its namespace, unique to this attempt
    std::string directory;                  // for the library's files
    std::vector<std::int32_t> rank_counts;  // by node
    std::size_t own = 0;                    // this node's place among them
  };
  // Loads the module at the first call; it stays until the program ends. An error names the file.
  static Expected<Pmix*> load();

  // The listener must outlive close(). One attempt at a time.
  virtual Status open(const Attempt& attempt, PmixListener& listener) = 0;
  // The environment variables, NAME=value, for a rank of this node; the names are the same for all.
  virtual Expected<std::vector<std::string>> entries_for(Rank rank) = 0;
  virtual void hear(const wire::MpiTold& told) = 0;
  virtual std::string fault_of(Rank rank, wire::WorkerExited& exited) = 0;
  // The listener is not called after this.
  virtual void close() = 0;
  // Ends the library's threads; make no calls afterwards.
  virtual void end() = 0;

 protected:
  ~Pmix() = default;
};

}  // namespace muster::agent

// The only function that the module exports.
extern "C" muster::agent::Pmix* muster_pmix();
