// Checkpoints beside safetensors files of others: the one written as the other, and two compared.
//
// Streams: no more than some pieces of kExportPieceBytes are in memory, whatever the size of a tensor. All
// that is read of a checkpoint is verified. Blocking.
#pragma once

#include <map>
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
// kNotFound, kCorrupt, kInvalidArgument: as read_manifest() and with_contents().
Expected<OpenCheckpoint> open_checkpoint(const CheckpointDirectory& directory, CheckpointId id,
                                         bool verified);

// Its tensors by the names that they have outside: of `all`, those of each rank as "rank.0.NAME"; else the
// model's, as PyTorch names them.
std::map<std::string, const SavedTensor*> tensors_of(const CheckpointManifest& manifest, bool all);

struct Written {
  std::size_t tensor_count = 0;
  std::uint64_t size_bytes = 0;
};
// Writes tensors_of() into one file, which does not exist: it appears whole or not at all.
Expected<Written> export_tensors(const OpenCheckpoint& checkpoint, bool all, const std::string& path);

// The other way round, into a directory that holds no checkpoint: an attempt of its own commits step `step`.
// A file of `all` becomes the state that it was; of another one the tensors become the model's. What is wrong
// with the file is said before anything is written.
struct Imported {
  CheckpointId id;
  Written written;
};
Expected<Imported> import_tensors(const std::string& path, const CheckpointDirectory& directory,
                                  std::uint64_t step);

struct TensorDifference {
  std::string name;
  std::string text;  // "only in the first", "[3, 4] and [4, 4]", "12 of 64 bytes differ, the first is 7"
};
Expected<std::vector<TensorDifference>> compare(const OpenCheckpoint& left, const OpenCheckpoint& right);

}  // namespace muster::launcher
