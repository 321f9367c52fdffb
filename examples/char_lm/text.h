// The training text: read from files, and written as a file of tokens that muster::TokenDataset maps.
//
// A character is a byte; the vocabulary is the set of bytes that occur. Errors are std::runtime_error and
// name the file.
#pragma once

#include <cstdint>
#include <string>

class Text {
 public:
  // Reads a file, or all files of a folder in the order of their names; skips symbolic links.
  explicit Text(const std::string& path);

  std::int64_t size() const { return static_cast<std::int64_t>(characters_.size()); }
  std::int64_t vocabulary_size() const { return static_cast<std::int64_t>(vocabulary_.size()); }
  std::uint8_t token_of(char character) const;  // 0 if it does not occur
  char character_of(std::int64_t token) const { return vocabulary_.at(static_cast<std::size_t>(token)); }

  // Writes the tokens, a byte each, to a file named by their digest, and returns its path. Several processes
  // may do so at the same time: the file is always complete.
  std::string write_tokens(const std::string& folder) const;

 private:
  std::string characters_;
  std::string vocabulary_;  // sorted
};
