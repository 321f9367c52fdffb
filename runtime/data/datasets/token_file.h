// Finds the tokens in a file, and their type. The file is one of these: raw tokens, numpy's .npy, llm.c's
// .bin with its header, or Megatron's .bin with its .idx.
#pragma once

#include <c10/core/ScalarType.h>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "runtime/data/datasets/mapped_file.h"

namespace muster {

struct TokenFile {
  std::string path;
  MappedFile file;
  const std::byte* tokens = nullptr;
  at::ScalarType dtype = at::ScalarType::UInt16;
  std::int64_t count = 0;
  // The number of each document's first token, and then `count`. A file without boundaries is one document.
  std::vector<std::int64_t> documents;
};

// `path` can also be Megatron's .idx, or the path of Megatron's two files without .bin or .idx. `dtype` is
// the type of a raw file's tokens, by default uint16. Errors name the file; for a file of another kind they
// say what it is.
Expected<TokenFile> open_token_file(const std::string& path, std::optional<at::ScalarType> dtype);

// Returns all files that match `pattern`, sorted. `pattern` can have a shell's *, ? and []. Returns `pattern`
// itself if it has none of these or if it is the name of a file. Fails if no file matches.
Expected<std::vector<std::string>> files_of_pattern(const std::string& pattern);

}  // namespace muster
