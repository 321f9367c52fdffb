// Text for a language model: files of tokens. Each is one of these, by its first bytes:
//
//   nothing but tokens, as numpy's tofile() and nanoGPT's train.bin (little-endian), of the option dtype
//   .npy         one row of uint8, uint16, uint32, int32 or int64, as np.save() writes
//   llm.c's .bin with its header of 1024 bytes, of uint16 or uint32
//   Megatron's   .idx and .bin beside each other: uint8, uint16, int32 or int64, and where documents begin
//
//   muster::TokenDataset dataset("train.bin", {.context = 1024});
//   muster::TokenDataset dataset("fineweb_train_*.bin", {.context = 1024});   // all of them, sorted by name
//   muster::TokenDataset dataset("corpus_text_document", {.context = 1024});  // .idx and .bin
//
// Files are mapped, not read: opening one of any size takes no time and little memory, but for Megatron's
// index, which is read once. Safe to read from several threads. They must not be cut while they are used.
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
  std::int64_t context = 0;  // tokens of a sample; at least 1
  std::int64_t stride = 0;   // from the begin of one sample to that of the next; 0: context
  // The type of a file that holds tokens only, kByte, kUInt16, kUInt32, kInt or kLong; kUInt16 if it is not
  // given. Files with a header must agree.
  std::optional<at::ScalarType> dtype = {};
  // A sample with a token that is not below it is an error that names the token and its place; 0: not looked
  // at.
  std::int64_t vocabulary_size = 0;
  // No sample has tokens of two documents: each document is cut by itself, and what is shorter than a sample,
  // or is left at its end, is left out.
  bool within_documents = false;
};

// Sample i of one file: data, the `context` tokens from i * stride on, and target, those from i * stride + 1
// on: [context] each, int64. Tokens at the end of a file, or of a document, that fill no whole sample are
// left out, and no sample has tokens of two files.
class TokenDataset : public Dataset<> {
 public:
  // `path` may have a shell's *, ? and []. std::invalid_argument names an option that cannot be used;
  // std::runtime_error the file, and what is wrong with it: missing, of another kind, not a whole number of
  // tokens, too few for one sample in all files.
  TokenDataset(const std::string& path, TokenDatasetOptions options);
  TokenDataset(const std::vector<std::string>& paths, TokenDatasetOptions options);
  TokenDataset(std::initializer_list<std::string> paths, TokenDatasetOptions options)
      : TokenDataset(std::vector<std::string>(paths), options) {}

  std::int64_t size() const override { return size_; }
  Example get(std::int64_t index) const override;
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  std::string name() const override { return name_; }
  std::int64_t token_count() const { return token_count_; }  // of all files
  // The first token of each document, counted over all files, and then token_count(). A file without
  // boundaries is one document.
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
