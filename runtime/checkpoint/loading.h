// From the files of a checkpoint into tensors: the byte ranges that a rank needs, each chunk verified before
// anything of it is used, in little memory whatever the checkpoint's size.
//
// A LoadedState::Source collects what the parts of a state ask for; fill() then reads all of it. For the
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

// The manifest of a checkpoint, with what its files hold also where they are of the first format.
Expected<CheckpointManifest> read_contents(const CheckpointDirectory& directory, CheckpointId id);

struct LoadRules {
  int rank = 0;
  // Those of this node that read it, this one among them, in the order of their numbers; empty: nobody knows.
  std::vector<int> readers = {};
  bool in_memory = false;  // the files lie there, and nobody shortens them
  bool strict = true;
  bool convert = false;  // other types of elements are converted
  // What names begin with in the program, and in the checkpoint.
  std::map<std::string, std::string> rename = {};
};

// What it is called in the checkpoint: of the beginnings that are renamed the longest counts.
std::string renamed(const std::string& name, const std::map<std::string, std::string>& rename);

struct LoadedState::Source {
  Source(std::string a_directory, CheckpointManifest a_manifest, LoadRules the_rules);

  std::string name_in_checkpoint(const std::string& name) const { return renamed(name, rules.rename); }
  const SavedTensor* find(const std::string& name) const;      // as it is in the checkpoint
  const SavedTensor* find_own(const std::string& name) const;  // this rank's
  // kNotFound, kCorrupt: the files that are needed are not there, or of another size.
  Status check_files() const;
  // Reads all that was asked for; kCorrupt names file, bytes and a tensor. What was filled before stays so.
  // In a meeting the readers of the rules do it together.
  Status fill(Meeting* meeting = nullptr) const;
  // What nobody has asked for.
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

  // At once. DamagedCheckpoint if that cannot be.
  at::Tensor read_now(const std::string& name, const SavedTensor& saved) const;

 private:
  Status read_parts_of_all(std::vector<PartRequest> parts, Meeting* meeting) const;
  Status fill_in_blocks(const Request& request) const;
};

// A tensor or value that the checkpoint has not.
struct NotInCheckpoint : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A tensor that a part needs at once cannot be read.
struct DamagedCheckpoint : std::runtime_error {
  explicit DamagedCheckpoint(const Error& why) : std::runtime_error(why.message()), error(why) {}
  Error error;
};

}  // namespace muster
