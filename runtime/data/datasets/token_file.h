// Where the tokens are in one file of them, and of which type: a file of nothing but tokens, numpy's .npy,
// llm.c's .bin with its header, or Megatron's .bin with the .idx beside it.
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

// `path` may also be Megatron's .idx, or both paths without their ends. `dtype` is that of a file of nothing
// but tokens; without it, uint16. Errors name the file, and for one of another kind say what it is.
Expected<TokenFile> open_token_file(const std::string& path, std::optional<at::ScalarType> dtype);

// All files that `pattern` stands for, as a shell's *, ? and [] do, sorted; itself where it has none of
// these, or is the name of a file. kUnavailable if there is none.
Expected<std::vector<std::string>> files_of_pattern(const std::string& pattern);

}  // namespace muster
