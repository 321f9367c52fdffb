// Reads parts of a checkpoint's files. It returns only bytes that match the manifest: it reads all chunks
// that contain some of the bytes, and checks the digests of these chunks.
//
// The functions block. They keep nothing from one call to the next, and end their threads before they return.
// Several threads can call them. plan_slice() (saved_tensor.h) finds the ranges to read.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors_header.h"

namespace muster {

// A request to read from one stored part: the elements of a slice that this part has. `target` is the place
// in memory where the slice begins.
struct PartRequest {
  std::string_view tensor;  // for messages
  PartCopy copy;
  std::byte* target = nullptr;
};

// Returns the requests that read one slice of a tensor. `target` must have room for all bytes of the slice.
// Returns the error of plan_slice() if that fails.
Expected<std::vector<PartRequest>> requests_for(std::string_view name, const SavedTensor& tensor,
                                                const Slice& slice, std::byte* target);

enum class ReadBy {
  kCache,    // the page cache, which keeps the bytes for other readers
  kDirect,   // the disk, which is fastest if nothing else reads the files
  kMapping,  // a mapping of files that are in memory and that no process shortens
};

// Performs all requests, with `threads` threads. The files are in `directory`. Each chunk is read only once.
// Returns kNotFound if a file is missing. Returns kCorrupt if bytes are damaged, with the file, the bytes and
// the tensor in the message. After an error, do not use the data that was read.
Status read_parts(const std::string& directory, std::span<const ManifestFile> files,
                  std::vector<PartRequest> requests, int threads = 1, ReadBy by = ReadBy::kCache);

// Completes a manifest of format 1, which lacks the contents. The contents come from the headers of its
// files. If `verified` is true, this also reads and checks all bytes of the files, and computes the digests
// of the chunks, which format 1 lacks, too. If the manifest has format 2, this returns it unchanged.
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
  // Called with the number of bytes that were read since the last call. The call can come on any of the
  // threads, but never on two at once.
  std::function<void(std::uint64_t)> progress = {};
};

// Reads every byte of every file. If possible, the reads bypass the page cache. Returns all damage, in the
// order of the files and bytes. If the checkpoint is whole, the result is empty.
std::vector<Damage> verify_files(const std::string& directory, const CheckpointManifest& manifest,
                                 const VerifyOptions& options);

}  // namespace muster
