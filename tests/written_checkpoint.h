// A checkpoint in a directory, as several ranks would have written it: for tests of its readers.
#pragma once

#include <fstream>
#include <map>
#include <string>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/checkpoint/directory.h"
#include "common/checkpoint/safetensors_header.h"

namespace muster {

struct WrittenTensor {
  Dtype dtype{};
  Extents shape;
  std::string bytes;
};

// Bytes that differ from place to place and from tensor to tensor.
inline WrittenTensor written_tensor(Dtype dtype, const Extents& shape, unsigned seed) {
  WrittenTensor tensor{
      .dtype = dtype, .shape = shape, .bytes = std::string(bytes_of(dtype, shape).value(), ' ')};
  for (char& byte : tensor.bytes) byte = static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
  return tensor;
}

struct WrittenCheckpoint {
  std::map<std::string, WrittenTensor> tensors;  // split by rows if there are as many as ranks
  std::map<std::string, std::string> values = {};
  std::map<std::string, double> metrics = {};
  int ranks = 2;
  std::uint64_t chunk_bytes = 256;
  bool own_generators = true;
};

// Writes the files of one rank; returns their description.
inline RankContents write_rank(const std::string& directory, const WrittenCheckpoint& checkpoint, int rank) {
  RankContents contents;
  struct Piece {
    std::string name;
    Slice slice;
    const std::string* bytes;
  };
  std::map<std::string, Piece> pieces;  // by the name in the file
  std::vector<HeaderTensor> tensors;
  int turn = 0;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    Slice slice = whole_of(tensor.shape);
    const std::int64_t rows = tensor.shape.empty() ? 0 : tensor.shape[0];
    if (rows >= checkpoint.ranks && bits_of(tensor.dtype) >= 8) {
      slice.offsets[0] = rows * rank / checkpoint.ranks;
      slice.sizes[0] = rows * (rank + 1) / checkpoint.ranks - slice.offsets[0];
    } else if (turn++ % checkpoint.ranks != rank) {
      continue;
    }
    const std::string file_name = part_name(name, tensor.shape, slice);
    pieces[file_name] = {name, slice, &tensor.bytes};
    tensors.push_back({.name = file_name, .dtype = tensor.dtype, .shape = slice.sizes});
    contents.shared.tensors[name] = {.dtype = tensor.dtype, .shape = tensor.shape};
  }
  const WrittenTensor generator = written_tensor(Dtype::kU8, {40}, static_cast<unsigned>(rank));
  if (checkpoint.own_generators) {
    pieces["rank.rng.cpu"] = {"", whole_of({40}), &generator.bytes};
    tensors.push_back({.name = "rank.rng.cpu", .dtype = Dtype::kU8, .shape = {40}});
  }
  const auto head = lay_out(tensors, {{"format", "pt"}});
  CHECK(head, "{}", head.error().message());
  std::string file = head->text;
  for (const HeaderTensor& tensor : tensors) {
    const Piece& piece = pieces.at(tensor.name);
    const StoredPart part{.file = 0, .offset_bytes = file.size(), .slice = piece.slice};
    std::uint64_t begin = 0;
    if (piece.name.empty()) {
      contents.own.tensors["rng.cpu"] = {.dtype = Dtype::kU8, .shape = {40}, .parts = {part}};
    } else {
      SavedTensor& saved = contents.shared.tensors[piece.name];
      saved.parts.push_back(part);
      if (!saved.shape.empty() && saved.shape[0] > 0)
        begin = static_cast<std::uint64_t>(piece.slice.offsets[0]) *
                (piece.bytes->size() / static_cast<std::uint64_t>(saved.shape[0]));
    }
    file += piece.bytes->substr(begin, tensor.size_bytes);
  }
  CHECK(file.size() == head->file_bytes, "{}", file.size());
  ManifestFile described{.name = fmt::format("rank-{:05}.safetensors", rank),
                         .size_bytes = file.size(),
                         .chunk_bytes = checkpoint.chunk_bytes};
  for (std::uint64_t at = 0; at < file.size(); at += checkpoint.chunk_bytes)
    described.chunks.push_back(digest_of(std::string_view(file).substr(at, checkpoint.chunk_bytes)));
  std::ofstream(directory + "/" + described.name, std::ios::binary) << file;
  contents.files.push_back(described);
  if (rank == 0) contents.shared.values = checkpoint.values;
  return contents;
}

// Writes the checkpoint and commits it.
inline CheckpointManifest write_checkpoint(const CheckpointDirectory& directory, CheckpointId id,
                                           const WrittenCheckpoint& checkpoint) {
  CHECK(make_directories(directory.path_of(id)), "cannot make {}", directory.path_of(id));
  CheckpointManifest manifest{.id = id,
                              .job = "job",
                              .world_size = checkpoint.ranks,
                              .written_at = 1'700'000'000 + static_cast<std::int64_t>(id.step),
                              .topology = {{"nodes", "1"}},
                              .metrics = checkpoint.metrics};
  for (int rank = 0; rank < checkpoint.ranks; ++rank) {
    const Status added = add_rank(manifest, rank, write_rank(directory.path_of(id), checkpoint, rank));
    CHECK(added, "{}", added.error().message());
  }
  const Status checked = check_manifest(manifest);
  CHECK(checked, "{}", checked.error().message());
  CHECK(write_file_durably(directory.manifest_path(id), encode_manifest(manifest)), "cannot commit");
  return manifest;
}

// A checkpoint with tensors of many types and shapes.
inline WrittenCheckpoint example_checkpoint() {
  return {.tensors = {{"model.linear.weight", written_tensor(Dtype::kF32, {16, 9}, 1)},
                      {"model.linear.bias", written_tensor(Dtype::kF32, {16}, 2)},
                      {"model.embedding", written_tensor(Dtype::kBF16, {33, 4, 5}, 3)},
                      {"model.norm.num_batches_tracked", written_tensor(Dtype::kI64, {}, 4)},
                      {"model.empty", written_tensor(Dtype::kF16, {0, 3}, 5)},
                      {"model.quantized", written_tensor(Dtype::kF8E4M3, {7}, 6)},
                      {"optimizer.linear.weight.exp_avg", written_tensor(Dtype::kF32, {16, 9}, 7)}},
          .values = {{"optimizer.lr.0", "double:0.01"}}};
}

}  // namespace muster
