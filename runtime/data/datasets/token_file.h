// Finds the tokens in a file, and their type: a raw file of tokens, numpy's .npy, llm.c's .bin with its
// header, or Megatron's .bin with its .idx.
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
  // The first token of each document, and then `count`. A file without boundaries is one document.
  std::vector<std::int64_t> documents;
};

// `path` may also be Megatron's .idx, or the path of its two files without .bin or .idx. `dtype` is the type
// of a raw file's tokens, by default uint16. Errors name the file; for a file of another kind they say what
// it is.
Expected<TokenFile> open_token_file(const std::string& path, std::optional<at::ScalarType> dtype);

// Returns all files that match `pattern` with a shell's *, ? and [], sorted. Without these letters, or if a
// file has that name, the result is `pattern` itself. An error if no file matches.
Expected<std::vector<std::string>> files_of_pattern(const std::string& pattern);

}  // namespace muster
