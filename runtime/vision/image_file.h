// An image file in memory. The constructor reads the file and the header of the image. Then the caller can
// allocate memory for the pixels.
//
// A thread must not have two ImageFiles at the same time, because they would use the same decoder of the
// thread. Errors are std::runtime_error. They name the path.
#pragma once

#include <cstdint>
#include <muster/vision/image.h>
#include <string>

#include "runtime/vision/image_decoder.h"

namespace muster {

inline int channel_count(ImageReadMode mode) {
  return mode == ImageReadMode::kGray ? 1 : 3;
}

class ImageFile {
 public:
  ImageFile(std::string path, ImageReadMode mode);
  const ImageShape& shape() const { return image_.shape; }
  void read(std::uint8_t* pixels) const;         // rows of pixels
  void read_planes(std::uint8_t* planes) const;  // [channels, height, width]

 private:
  std::string path_;
  std::string bytes_;
  OpenedImage image_;
};

}  // namespace muster
