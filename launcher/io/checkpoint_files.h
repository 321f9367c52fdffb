// Exports checkpoints as safetensors files, imports such files, and compares two checkpoints.
//
// Holds only a few pieces of kExportPieceBytes in memory, whatever the size of a tensor. Verifies everything
// that it reads from a checkpoint. Blocking.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/directory.h"
#include "common/checkpoint/reader.h"

namespace muster::launcher {

inline constexpr std::uint64_t kExportPieceBytes = 32 << 20;

struct OpenCheckpoint {
  std::string path;  // of its files
  CheckpointManifest manifest;
};
// Errors: those of read_manifest() and with_contents(): kNotFound, kCorrupt, kInvalidArgument.
Expected<OpenCheckpoint> open_checkpoint(const CheckpointDirectory& directory, CheckpointId id,
                                         bool verified);

// The checkpoint's tensors by their names in an exported file. With `all`: the whole state, with each rank's
// own tensors as "rank.0.NAME". Without `all`: only the model's tensors, as PyTorch names them.
std::map<std::string, const SavedTensor*> tensors_of(const CheckpointManifest& manifest, bool all);

struct Written {
  std::size_t tensor_count = 0;
  std::uint64_t size_bytes = 0;
};
// Writes tensors_of() into one new file. The file appears complete or not at all.
Expected<Written> export_tensors(const OpenCheckpoint& checkpoint, bool all, const std::string& path);

// Imports such a file into a checkpoint directory without checkpoints, as step `step` of a new attempt. A
// file exported with `all` restores the whole state; the tensors of any other file become the model's. Checks
// the file before it writes anything.
struct Imported {
  CheckpointId id;
  Written written;
};
Expected<Imported> import_tensors(const std::string& path, const CheckpointDirectory& directory,
                                  std::uint64_t step);

struct TensorDifference {
  std::string name;
  // "only in the first", "F32 [3] and F32 [4]", or
  // "12 of 64 bytes differ, the first is 7; at most 0.5 at [0, 3]"
  std::string text;
  // The largest difference of two elements, and its index. Infinite if only one of them is a number or
  // finite. Nothing if one checkpoint lacks the tensor, or if its type has no numbers.
  std::optional<double> largest = {};
  Extents at = {};
};
// "0.5 at [0, 3]". `largest` must be set.
std::string largest_text(const TensorDifference& difference);
Expected<std::vector<TensorDifference>> compare(const OpenCheckpoint& left, const OpenCheckpoint& right);

}  // namespace muster::launcher
