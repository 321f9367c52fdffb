// Text for a language model, from files of tokens. A file's first bytes tell which of these formats it has:
//
//   raw          only tokens, little-endian, of the option dtype: numpy's tofile(), nanoGPT's train.bin
//   .npy         one row of uint8, uint16, uint32, int32 or int64, as np.save() writes
//   llm.c        .bin with its header of 1024 bytes; uint16 or uint32
//   Megatron     .idx next to .bin, with the starts of documents; uint8, uint16, int32 or int64
//
//   muster::TokenDataset dataset("train.bin", {.context = 1024});
//   muster::TokenDataset dataset("fineweb_train_*.bin", {.context = 1024});   // all of them, sorted by name
//   muster::TokenDataset dataset("corpus_text_document", {.context = 1024});  // .idx and .bin
//
// Files are memory-mapped: opening one of any size takes no time and little memory. An exception is
// Megatron's index, which is read once. Several threads can read a dataset at once. Files must not be
// truncated while in use.
#pragma once

#include <c10/core/ScalarType.h>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <muster/data/dataset.h>
#include <optional>
#include <string>
#include <vector>

namespace muster {

struct TokenDatasetOptions {
  std::int64_t context = 0;  // tokens per sample; at least 1
  std::int64_t stride = 0;   // from the start of one sample to the start of the next; 0: context
  // The type of the tokens in a raw file: kByte, kUInt16, kUInt32, kInt or kLong. Empty: kUInt16. If a type
  // is given, files with a header must have this type too.
  std::optional<at::ScalarType> dtype = {};
  // If a token is equal to this size or larger, reading it throws an error, which names the token and its
  // place. 0: tokens are not checked.
  std::int64_t vocabulary_size = 0;
  // true: a sample never has tokens of two documents. A document that is shorter than a sample is skipped,
  // and so are the tokens left over at the end of a document.
  bool within_documents = false;
};

// Sample i of a file has two tensors [context] of int64:
// - data: the tokens from place `i * stride` on
// - target: the tokens from place `i * stride + 1` on
// Tokens at the end of a file or document that do not fill a sample are skipped, and no sample has tokens of
// two files.
class TokenDataset : public Dataset<> {
 public:
  // `path` may contain a shell's *, ? and []. Throws std::invalid_argument, which names an option that cannot
  // be used, and std::runtime_error, which names the file and what is wrong with it. For example, the file is
  // missing, has an unknown format, or does not have a whole number of tokens, or all files together are too
  // short for one sample.
  TokenDataset(const std::string& path, TokenDatasetOptions options);
  TokenDataset(const std::vector<std::string>& paths, TokenDatasetOptions options);
  TokenDataset(std::initializer_list<std::string> paths, TokenDatasetOptions options)
      : TokenDataset(std::vector<std::string>(paths), options) {}

  std::int64_t size() const override { return size_; }
  Example get(std::int64_t index) const override;
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  std::string name() const override { return name_; }
  std::int64_t token_count() const { return token_count_; }  // in all files
  // Returns the place of the first token of each document, counted over all files. The last entry is
  // token_count(). A file without document boundaries is a single document.
  std::vector<std::int64_t> documents() const;

 private:
  struct Part;
  Part part_of(const std::string& path);
  struct Place;
  Place place_of(std::int64_t index) const;
  void gather(const Place& place, std::int64_t* data, std::int64_t* target) const;

  TokenDatasetOptions options_;
  std::string name_;
  std::shared_ptr<const std::vector<Part>> parts_;
  std::int64_t token_count_ = 0;
  std::int64_t size_ = 0;
};

}  // namespace muster
