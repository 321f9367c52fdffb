// Images and labels in the IDX format of MNIST and Fashion-MNIST, plain or compressed by gzip or zstd.
//
// The images' bytes are held in memory as they are in the file; floats are made when a batch is gathered.
// Safe to read from several threads.
#pragma once

#include <cstdint>
#include <muster/data/dataset.h>
#include <string>
#include <vector>

namespace muster {

// What a file holds, of its type and shape: uint8, int8, int16, int32, float or double. std::runtime_error
// names the file and what is wrong with it.
at::Tensor read_idx(const std::string& path);

// A pixel p becomes (p / 255 - mean) / stddev.
struct IdxNormalization {
  float mean = 0;
  float stddev = 1;
};

class IdxDataset : public Dataset<> {
 public:
  // Images [n, height, width] or [n, channels, height, width] of unsigned bytes, labels [n] of any whole
  // numbers. std::runtime_error names the file and what is wrong with it; std::invalid_argument a stddev that
  // is not above 0.
  IdxDataset(const std::string& images_path, const std::string& labels_path,
             IdxNormalization normalization = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  Example get(
      std::int64_t index) const override;  // float [channels, height, width], 1 channel or more; int64 []
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
