// Finds the place of the tokens in a file, and their type. The file can have one of these formats: raw
// tokens, numpy's .npy, llm.c's .bin with its header, or Megatron's .bin with its .idx.
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
  // For each document, the number of its first token. After these numbers, the last element is `count`. A
  // file without boundaries is one document.
  std::vector<std::int64_t> documents;
};

// Opens a file of tokens. For Megatron's format, `path` is the .bin file, the .idx file, or their common path
// without the ending. `dtype` is the type of the tokens in a raw file. By default it is uint16. An error
// names the file. If the file is of another kind, the error also says what it is.
Expected<TokenFile> open_token_file(const std::string& path, std::optional<at::ScalarType> dtype);

// Returns all files that match `pattern`, sorted. `pattern` can have a shell's *, ? and []. Returns `pattern`
// itself if it has none of these or if it is the name of a file. Fails if no file matches.
Expected<std::vector<std::string>> files_of_pattern(const std::string& pattern);

}  // namespace muster
