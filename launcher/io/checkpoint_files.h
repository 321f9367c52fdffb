// Exports checkpoints as safetensors files, imports such files, and compares two checkpoints.
//
// Only a few pieces of kExportPieceBytes are in memory at a time, even if a tensor is large. Everything that
// is read from a checkpoint is verified. Blocking.
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
// Opens a checkpoint. Returns the errors of read_manifest() and with_contents(): kNotFound, kCorrupt or
// kInvalidArgument.
Expected<OpenCheckpoint> open_checkpoint(const CheckpointDirectory& directory, CheckpointId id,
                                         bool verified);

// Returns the tensors of the checkpoint by the names that they have in an exported file. With `all`, these
// are the tensors of the whole state. Then the tensors that each rank has of its own are called
// "rank.0.NAME". Without `all`, they are only the tensors of the model, with their names in PyTorch.
std::map<std::string, const SavedTensor*> tensors_of(const CheckpointManifest& manifest, bool all);

struct Written {
  std::size_t tensor_count = 0;
  std::uint64_t size_bytes = 0;
};
// Writes the tensors of tensors_of() into one new file. The file appears complete or not at all.
Expected<Written> export_tensors(const OpenCheckpoint& checkpoint, bool all, const std::string& path);

// The result of import_tensors(). That function makes a checkpoint from a safetensors file, in a checkpoint
// directory that has no checkpoints. The checkpoint becomes step `step` of a new attempt. If export_tensors()
// wrote the file with `all`, the whole state is restored. The tensors of any other file become those of the
// model. The file is checked before anything is written.
struct Imported {
  CheckpointId id;
  Written written;
};
Expected<Imported> import_tensors(const std::string& path, const CheckpointDirectory& directory,
                                  std::uint64_t step);

struct TensorDifference {
  std::string name;
  // A text such as "only in the first", "F32 [3] and F32 [4]", or "12 of 64 bytes differ, the first is 7; at
  // most 0.5 at [0, 3]".
  std::string text;
  // The largest difference of two elements, and the index of these elements. The difference is infinite if
  // only one of the two elements is NaN, or if one of them is infinite and the other one has another value.
  // It is nullopt if one checkpoint lacks the tensor, or if the type of the tensor has no numbers.
  std::optional<double> largest = {};
  Extents at = {};
};
// "0.5 at [0, 3]". `largest` must be set.
std::string largest_text(const TensorDifference& difference);
Expected<std::vector<TensorDifference>> compare(const OpenCheckpoint& left, const OpenCheckpoint& right);

}  // namespace muster::launcher
