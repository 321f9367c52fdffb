// An image file that was read into memory. The constructor reads the file and the image's header. So the
// caller can allocate memory for the pixels.
//
// A thread must not have two ImageFiles at a time, because they would share the thread's decoder. Errors are
// std::runtime_error with the path.
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
