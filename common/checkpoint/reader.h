// Reads parts of a checkpoint's files and returns only bytes that match the manifest: for each range it reads
// the chunks that contain it and compares their digests.
//
// The functions block, keep nothing between calls, and end their threads before they return. Several threads
// can call them. plan_slice() (saved_tensor.h) finds the ranges.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors_header.h"

namespace muster {

// A request to read what one stored part holds of a slice. `target` is where the slice begins in memory.
struct PartRequest {
  std::string_view tensor;  // for messages
  PartCopy copy;
  std::byte* target = nullptr;
};

// Returns the requests that read one slice of a tensor. `target` has room for all bytes of the slice. Fails
// if plan_slice() fails.
Expected<std::vector<PartRequest>> requests_for(std::string_view name, const SavedTensor& tensor,
                                                const Slice& slice, std::byte* target);

enum class ReadBy {
  kCache,    // the page cache, which keeps the bytes for other readers
  kDirect,   // the disk, which is fastest if nothing else reads the files
  kMapping,  // a mapping of files that are in memory and that no process shortens
};

// Performs all requests with that many threads, and reads each chunk only once. `directory` holds the files.
// kCorrupt names file, bytes and tensor. After an error, discard what was read. kNotFound: a file is missing.
Status read_parts(const std::string& directory, std::span<const ManifestFile> files,
                  std::vector<PartRequest> requests, int threads = 1, ReadBy by = ReadBy::kCache);

// Completes a manifest of format 1: reads its contents from the headers of its files. If `verified`, also
// reads and checks all bytes of the files, and computes the chunk digests that format 1 lacks. Returns a
// manifest of format 2 unchanged.
Expected<CheckpointManifest> with_contents(const std::string& directory, CheckpointManifest manifest,
                                           bool verified);

// Reads the header of a file; checks no digests.
Expected<SafetensorsHeader> read_header(const std::string& path);

// A damaged place in a file.
struct Damage {
  std::string file;
  std::uint64_t begin_bytes = 0;  // of the damaged chunk, in the file
  std::uint64_t end_bytes = 0;
  std::vector<std::string> tensors;  // the first tensors in it: "model.w from byte 4104 on"
  std::string text;                  // the whole message, for people
};

struct VerifyOptions {
  int threads = 4;
  // Gets the number of bytes read since the last call. Any of the threads calls it, one at a time.
  std::function<void(std::uint64_t)> progress = {};
};

// Reads every byte of every file, bypassing the page cache if possible. Returns all damage, in the order of
// files and bytes; empty if the checkpoint is whole.
std::vector<Damage> verify_files(const std::string& directory, const CheckpointManifest& manifest,
                                 const VerifyOptions& options);

}  // namespace muster
