// The PMIx server for Open MPI's ranks.
//
// The code that needs the PMIx library is in a module, libmuster_pmix.so. Only the first attempt that uses
// PMIx loads it, so that other jobs have neither the library's threads nor its memory. The agent's one thread
// calls the module. The library's own thread calls the listener.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/wire/messages.h"

namespace muster::agent {

// PMIx's thread calls the functions of a listener. They must not block, and they must not call functions of
// Pmix.
class PmixListener {
 public:
  virtual ~PmixListener() = default;
  // Passes a question on to the launcher. Only a fence, that is, a barrier of ranks, has a `limit`. If the
  // fence is not answered within that time, the listener withdraws it.
  virtual void asked(wire::MpiAsked asked, std::optional<std::chrono::seconds> limit) = 0;
  virtual void remarked(std::string what) = 0;  // a line for the user
};

// The interface of the module. Its functions throw no exceptions.
class Pmix {
 public:
  struct Attempt {
    std::string name;                       // of the PMIx namespace, unique to this attempt
    std::string directory;                  // for the library's files
    std::vector<std::int32_t> rank_counts;  // by node
    std::size_t own = 0;                    // this node's index in `rank_counts`
  };
  // Loads the module at the first call. The module then stays until the program ends. If this fails, the
  // error names the file.
  static Expected<Pmix*> load();

  // Begins to serve the ranks of an attempt. Only one attempt can be open at a time. The listener must live
  // until close() has returned.
  virtual Status open(const Attempt& attempt, PmixListener& listener) = 0;
  // Returns the environment variables for a rank of this node, as NAME=value. The names are the same for all
  // ranks.
  virtual Expected<std::vector<std::string>> entries_for(Rank rank) = 0;
  virtual void hear(const wire::MpiTold& told) = 0;
  virtual std::string fault_of(Rank rank, wire::WorkerExited& exited) = 0;
  // The listener is not called after this.
  virtual void close() = 0;
  // Ends the threads of the library. No function of this class can be called afterwards.
  virtual void end() = 0;

 protected:
  ~Pmix() = default;
};

}  // namespace muster::agent

// The only function that the module exports.
extern "C" muster::agent::Pmix* muster_pmix();
