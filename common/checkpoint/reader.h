// Reads parts of a checkpoint's files, and gives out no byte that is not what the manifest says: of each
// range the chunks that hold it are read, and their digests compared.
//
// Blocking, with threads of its own that end before a call returns; safe to call from several threads. Where
// the ranges lie: saved_tensor.h. Nothing is kept between calls.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors_header.h"

namespace muster {

// A part's share of a slice, and where it goes: `target` is where the slice begins.
struct PartRequest {
  std::string_view tensor;  // for messages
  PartCopy copy;
  std::byte* target = nullptr;
};

// What a slice of a tensor is read with; `target` has room for all of its bytes. As plan_slice().
Expected<std::vector<PartRequest>> requests_for(std::string_view name, const SavedTensor& tensor,
                                                const Slice& slice, std::byte* target);

enum class ReadBy {
  kCache,    // the page cache, where others find what was read
  kDirect,   // the disk alone, which is the fastest where nobody else reads the files
  kMapping,  // a mapping, of files in memory that nobody shortens
};

// Reads them all, each chunk once, with so many threads. `directory` holds the files. kCorrupt names file,
// bytes and tensor; whatever was read until then is of no use. kNotFound: a file is missing.
Status read_parts(const std::string& directory, std::span<const ManifestFile> files,
                  std::vector<PartRequest> requests, int threads = 1, ReadBy by = ReadBy::kCache);

// The manifest with its contents. One of the first format says them in the headers of its files: these are
// read, and with `verified` all of the files, so that the digests of chunks, which it has none of, are known
// and right. Others are given back as they are.
Expected<CheckpointManifest> with_contents(const std::string& directory, CheckpointManifest manifest,
                                           bool verified);

// The header of a file as it is, without a look at digests.
Expected<SafetensorsHeader> read_header(const std::string& path);

// What is wrong with one file.
struct Damage {
  std::string file;
  std::uint64_t begin_bytes = 0;  // of the damaged chunk, in the file
  std::uint64_t end_bytes = 0;
  std::vector<std::string> tensors;  // that lie there, the first ones: "model.w from byte 4104 on"
  std::string text;                  // all of it, for people
};

struct VerifyOptions {
  int threads = 4;
  // With the bytes that were read since the last call; from any of the threads, one at a time.
  std::function<void(std::uint64_t)> progress = {};
};

// Reads every byte of every file, past the page cache where that goes. All that is damaged, in the order of
// files and bytes; none: it is whole.
std::vector<Damage> verify_files(const std::string& directory, const CheckpointManifest& manifest,
                                 const VerifyOptions& options);

}  // namespace muster
