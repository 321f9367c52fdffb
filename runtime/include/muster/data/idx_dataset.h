// Images and labels in the IDX format of MNIST and Fashion-MNIST, uncompressed or compressed with gzip or
// zstd.
//
// An IdxDataset keeps the images' bytes in memory as they are in the file. It makes floats of them when it
// gathers a batch. Several threads can read it at once.
#pragma once

#include <cstdint>
#include <muster/data/dataset.h>
#include <string>
#include <vector>

namespace muster {

// Returns the content of the file as a tensor. Its type and shape are those in the file; the type is uint8,
// int8, int16, int32, float or double. Throws std::runtime_error, which names the file and what is wrong with
// it.
at::Tensor read_idx(const std::string& path);

// A pixel p becomes (p / 255 - mean) / stddev.
struct IdxNormalization {
  float mean = 0;
  float stddev = 1;
};

class IdxDataset : public Dataset<> {
 public:
  // The files have images [n, height, width] or [n, channels, height, width] of unsigned bytes, and labels
  // [n] of any integer type. Throws std::runtime_error, which names the file and what is wrong with it, or
  // std::invalid_argument if stddev is not above 0.
  IdxDataset(const std::string& images_path, const std::string& labels_path,
             IdxNormalization normalization = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  // Returns an example. Its `data` has the shape [channels, height, width], consists of floats, and has at
  // least 1 channel. Its `target` has the shape [] and the type int64.
  Example get(std::int64_t index) const override;
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  std::string name() const override { return name_; }

 private:
  std::string name_;
  IdxNormalization normalization_;
  std::int64_t channels_ = 1;
  std::int64_t height_ = 0;
  std::int64_t width_ = 0;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int64_t> labels_;
};

}  // namespace muster
