// Text for a language model: a file of tokens, nothing else, as numpy's tofile() and nanoGPT's train.bin have
// it (little-endian).
//
//   muster::TokenDataset dataset("train.bin", {.context = 1024});
//
// The file is mapped, not read: opening one of any size takes no time and little memory. Safe to read from
// several threads. It must not be cut while it is used.
#pragma once

#include <c10/core/ScalarType.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <muster/dataset.h>
#include <string>

namespace muster {

class MappedFile;

struct TokenDatasetOptions {
  std::int64_t context = 0;  // tokens of a sample; at least 1
  std::int64_t stride = 0;   // from the begin of one sample to that of the next; 0: context
  // Of the file: kByte, kUInt16, kUInt32, kInt or kLong.
  at::ScalarType dtype = at::ScalarType::UInt16;
  // A sample with a token that is not below it is an error that names the token and its place; 0: not looked
  // at.
  std::int64_t vocabulary_size = 0;
};

// Sample i: data, the `context` tokens from i * stride on, and target, those from i * stride + 1 on:
// [context] each, int64. Tokens at the end of the file that fill no whole sample are left out.
class TokenDataset : public Dataset<> {
 public:
  // std::invalid_argument names an option that cannot be used; std::runtime_error the file, and what is wrong
  // with it: missing, not a whole number of tokens, too few for one sample.
  TokenDataset(const std::string& path, TokenDatasetOptions options);

  std::int64_t size() const override { return size_; }
  Example get(std::int64_t index) const override;
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  std::string name() const override { return path_; }
  std::int64_t token_count() const { return token_count_; }  // of the file

 private:
  void gather(std::int64_t index, std::int64_t* data, std::int64_t* target) const;

  std::string path_;
  TokenDatasetOptions options_;
  std::shared_ptr<const MappedFile> file_;
  std::int64_t token_count_ = 0;
  std::int64_t size_ = 0;
};

}  // namespace muster
