// Reads from a checkpoint's files those ranges of bytes that a rank needs, and puts them into tensors. Each
// chunk is verified before any of its bytes are used. A larger checkpoint does not need more memory.
//
// The parts of a state request what they need, and a LoadedState::Source collects these requests. Then its
// fill() reads everything. Use these functions on the training thread.
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

// Returns the manifest of a checkpoint. A manifest of format 1 does not list the tensors. For such a
// manifest, read_contents() reads the list from the headers of the files, and it verifies all bytes of the
// files.
Expected<CheckpointManifest> read_contents(const CheckpointDirectory& directory, CheckpointId id);

struct LoadRules {
  int rank = 0;
  // The ranks of this node that read the checkpoint, in ascending order. This rank is one of them. Empty if
  // they are not known.
  std::vector<int> readers = {};
  bool in_memory = false;  // the files are in memory, and no process shortens them
  bool strict = true;      // a name that the checkpoint does not have is an error
  bool convert = false;    // elements of another type are converted
  // Says how names differ. The keys are prefixes of names in the program. The values are the prefixes that
  // the same names have in the checkpoint.
  std::map<std::string, std::string> rename = {};
};

// Returns the name in the checkpoint for a name in the program. If several prefixes in `rename` match, the
// longest one is used.
std::string renamed(const std::string& name, const std::map<std::string, std::string>& rename);

// Invariants:
// - Each request is for a slice within a tensor of `manifest`. Its target has the shape of that slice.
// - fill() changes only the targets.
// - `used` has the names in the checkpoint that the program asked for.
// - `missing` says what the program asked for and the checkpoint does not have.
struct LoadedState::Source {
  Source(std::string a_directory, CheckpointManifest a_manifest, LoadRules the_rules);

  std::string name_in_checkpoint(const std::string& name) const { return renamed(name, rules.rename); }
  // Returns the tensor that has this name in the checkpoint. Returns null if there is none.
  const SavedTensor* find(const std::string& name) const;
  const SavedTensor* find_own(const std::string& name) const;  // finds a tensor that is this rank's own
  // Returns kNotFound if a needed file is missing, and kCorrupt if a needed file has another size.
  Status check_files() const;
  // Reads everything that was requested. If `meeting` is given, the ranks in `rules.readers` read the files
  // together. If data is damaged, returns kCorrupt. The message names the file, the bytes and a tensor. After
  // an error, some targets may already be filled.
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

  // Reads one tensor at once. If that fails, throws DamagedCheckpoint.
  at::Tensor read_now(const std::string& name, const SavedTensor& saved) const;

 private:
  Status read_parts_of_all(std::vector<PartRequest> parts, Meeting* meeting) const;
  Status fill_in_blocks(const Request& request) const;
};

// Thrown if the checkpoint does not have a tensor or a value.
struct NotInCheckpoint : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Thrown by LoadedState::read() and read_own() if the tensor cannot be read. A part of the state calls these
// functions if it needs a tensor already while it checks the checkpoint.
struct DamagedCheckpoint : std::runtime_error {
  explicit DamagedCheckpoint(const Error& why) : std::runtime_error(why.message()), error(why) {}
  Error error;
};

}  // namespace muster
