// Reads the byte ranges that a rank needs from the files of a checkpoint into tensors. Each chunk is verified
// before any byte of it is used. The memory needed does not grow with the checkpoint.
//
// A LoadedState::Source collects the requests of all parts of a state. Its fill() then reads them. Use these
// functions on the training thread.
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

// Returns the manifest of a checkpoint. If the manifest has format 1, which does not list the tensors, reads
// them from the headers of the files, and verifies all bytes of the files.
Expected<CheckpointManifest> read_contents(const CheckpointDirectory& directory, CheckpointId id);

struct LoadRules {
  int rank = 0;
  // The ranks of this node that read the checkpoint, including this rank, in ascending order; empty: unknown.
  std::vector<int> readers = {};
  bool in_memory = false;  // the files are in memory, and no process shortens them
  bool strict = true;      // a name that the checkpoint does not have is an error
  bool convert = false;    // elements of another type are converted
  // Maps a prefix of names in the program to the prefix in the checkpoint.
  std::map<std::string, std::string> rename = {};
};

// Translates a name in the program to the name in the checkpoint. The longest prefix that matches decides.
std::string renamed(const std::string& name, const std::map<std::string, std::string>& rename);

// Invariants:
// - Each request is for a slice within a tensor of `manifest`. Its target has the shape of that slice.
// - fill() changes only the targets.
// - `used` has the names in the checkpoint that the program asked for.
// - `missing` says what the program asked for and the checkpoint does not have.
struct LoadedState::Source {
  Source(std::string a_directory, CheckpointManifest a_manifest, LoadRules the_rules);

  std::string name_in_checkpoint(const std::string& name) const { return renamed(name, rules.rename); }
  // Finds a tensor by its name in the checkpoint; null if the checkpoint does not have that name.
  const SavedTensor* find(const std::string& name) const;
  const SavedTensor* find_own(const std::string& name) const;  // finds a tensor that is this rank's own
  // Returns kNotFound if a needed file is missing, and kCorrupt if a needed file has another size.
  Status check_files() const;
  // Reads everything that was requested. If `meeting` is given, the ranks in `rules.readers` read together.
  // kCorrupt names the file, the bytes and a tensor. After an error, some targets may already be filled.
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

// Thrown if a tensor that a part needs at once cannot be read.
struct DamagedCheckpoint : std::runtime_error {
  explicit DamagedCheckpoint(const Error& why) : std::runtime_error(why.message()), error(why) {}
  Error error;
};

}  // namespace muster
