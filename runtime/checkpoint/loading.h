// Reads the byte ranges that a rank needs from the files of a checkpoint into tensors. Each chunk is verified
// before any byte of it is used. The memory that this takes does not grow with the checkpoint.
//
// A LoadedState::Source collects the requests of the parts of a state; fill() then reads all of them. For the
// training thread.
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

// The manifest of a checkpoint. For a checkpoint of the first format, the tensors are taken from its files'
// headers.
Expected<CheckpointManifest> read_contents(const CheckpointDirectory& directory, CheckpointId id);

struct LoadRules {
  int rank = 0;
  // The ranks of this node that read the checkpoint, this one included, by rising number; empty: unknown.
  std::vector<int> readers = {};
  bool in_memory = false;  // the files lie in memory, and no process shortens them
  bool strict = true;      // a name that the checkpoint does not have is an error
  bool convert = false;    // convert elements of another type
  // The prefix of names in the program, and the one in the checkpoint.
  std::map<std::string, std::string> rename = {};
};

// The name in the checkpoint. If several prefixes match, the longest one wins.
std::string renamed(const std::string& name, const std::map<std::string, std::string>& rename);

// Invariants: each request is for a slice within the shape of a tensor of `manifest`, and its target has the
// shape of that slice. fill() changes the targets alone. `used` and `missing` have the names that were asked
// for, in the checkpoint and in the program.
struct LoadedState::Source {
  Source(std::string a_directory, CheckpointManifest a_manifest, LoadRules the_rules);

  std::string name_in_checkpoint(const std::string& name) const { return renamed(name, rules.rename); }
  // By the name in the checkpoint; null: the checkpoint does not have it.
  const SavedTensor* find(const std::string& name) const;
  const SavedTensor* find_own(const std::string& name) const;  // this rank's own
  // kNotFound: a file that is needed is missing; kCorrupt: it has another size.
  Status check_files() const;
  // Reads all that was requested. kCorrupt names the file, the bytes and a tensor; tensors that were filled
  // before stay filled. With a meeting, the readers of the rules read together.
  Status fill(Meeting* meeting = nullptr) const;
  // The tensors that no part has asked for.
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

// The checkpoint does not have a tensor or value.
struct NotInCheckpoint : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A tensor that a part needs now cannot be read.
struct DamagedCheckpoint : std::runtime_error {
  explicit DamagedCheckpoint(const Error& why) : std::runtime_error(why.message()), error(why) {}
  Error error;
};

}  // namespace muster
