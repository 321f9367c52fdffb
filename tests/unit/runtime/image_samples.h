// Small images of many kinds, with the pixels that Pillow makes of them (image_golden.py).
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace muster {

struct ImageSample {
  std::string name;
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::string file;
  std::vector<std::uint8_t> pixels;  // red, green, blue, row by row
};

inline std::string from_hexadecimal(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

inline std::vector<ImageSample> image_samples() {
  std::ifstream golden(MUSTER_IMAGE_GOLDEN);
  std::vector<ImageSample> samples;
  ImageSample sample;
  std::string file, pixels;
  while (golden >> sample.name >> sample.width >> sample.height >> file >> pixels) {
    sample.file = from_hexadecimal(file);
    const std::string bytes = from_hexadecimal(pixels);
    sample.pixels.assign(bytes.begin(), bytes.end());
    samples.push_back(sample);
  }
  CHECK(!samples.empty(), "{}", MUSTER_IMAGE_GOLDEN);
  return samples;
}

inline ImageSample image_sample(const std::string& name) {
  for (ImageSample& sample : image_samples())
    if (sample.name == name) return sample;
  CHECK(false, "no sample {}", name);
  return {};
}

}  // namespace muster
