// Reads the byte ranges that a rank needs from the files of a checkpoint into tensors. Each chunk is verified
// before any byte of it is used. Reading a larger checkpoint takes no more memory.
//
// A LoadedState::Source collects the requests of the parts of a state; fill() then reads all of them. Call
// both on the training thread.
#pragma once

#include <map>
#include <muster/checkpoint/state_part.h>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/checkpoint/directory.h"
#include "common/checkpoint/reader.h"
#include "runtime/checkpoint/meeting.h"

namespace muster {

// Returns the manifest of a checkpoint. If the checkpoint has the first format, takes the tensors from the
// headers of its files.
Expected<CheckpointManifest> read_contents(const CheckpointDirectory& directory, CheckpointId id);

struct LoadRules {
  int rank = 0;
  // The ranks of this node that read the checkpoint, this rank included, in rising order; empty: unknown.
  std::vector<int> readers = {};
  bool in_memory = false;  // the files lie in memory, and no process shortens them
  bool strict = true;      // a name that the checkpoint does not have is an error
  bool convert = false;    // convert elements of another type
  // Maps a prefix of names in the program to the prefix in the checkpoint.
  std::map<std::string, std::string> rename = {};
};

// Returns a program's name as the checkpoint has it. If several prefixes match, the longest one wins.
std::string renamed(const std::string& name, const std::map<std::string, std::string>& rename);

// Invariants: each request is for a slice within the shape of a tensor of `manifest`, and its target has the
// shape of that slice. fill() changes only the targets. `used` has the names in the checkpoint that the
// program asked for; `missing` has what the program asked for and the checkpoint does not have.
struct LoadedState::Source {
  Source(std::string a_directory, CheckpointManifest a_manifest, LoadRules the_rules);

  std::string name_in_checkpoint(const std::string& name) const { return renamed(name, rules.rename); }
  // Finds a tensor by its name in the checkpoint; null if the checkpoint does not have that name.
  const SavedTensor* find(const std::string& name) const;
  const SavedTensor* find_own(const std::string& name) const;  // this rank's own
  // kNotFound: a needed file is missing; kCorrupt: a needed file has another size.
  Status check_files() const;
  // Reads all that was requested. With a meeting, the ranks in `rules.readers` read together. kCorrupt names
  // the file, the bytes and a tensor; tensors that were filled before stay filled.
  Status fill(Meeting* meeting = nullptr) const;
  // Returns the names of the tensors that no part has asked for.
  std::vector<std::string> left_over() const;

  struct Request {
    std::string name;
    const SavedTensor* tensor;
    Slice wanted;
    at::Tensor target;
  };
  std::string directory;
  CheckpointManifest manifest;
  LoadRules rules;
  std::vector<Request> requests;
  std::set<std::string> used;
  std::vector<std::string> missing;

  // Reads one tensor now. Throws DamagedCheckpoint if that fails.
  at::Tensor read_now(const std::string& name, const SavedTensor& saved) const;

 private:
  Status read_parts_of_all(std::vector<PartRequest> parts, Meeting* meeting) const;
  Status fill_in_blocks(const Request& request) const;
};

// Thrown for a tensor or value that the checkpoint does not have.
struct NotInCheckpoint : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A tensor that a part needs now cannot be read.
struct DamagedCheckpoint : std::runtime_error {
  explicit DamagedCheckpoint(const Error& why) : std::runtime_error(why.message()), error(why) {}
  Error error;
};

}  // namespace muster
