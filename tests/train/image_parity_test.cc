// Pictures of all kinds, compared bit for bit with the pixels of torchvision's ImageFolder.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <muster/vision/image_folder.h>
#include <sys/wait.h>

#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The image's rows, with the channels of a pixel next to each other.
std::string pixel_bytes(const at::Tensor& image) {
  const at::Tensor rows = image.permute({1, 2, 0}).contiguous();
  return {reinterpret_cast<const char*>(rows.const_data_ptr<std::uint8_t>()),
          static_cast<std::size_t>(rows.numel())};
}

// For gray, Muster reads a JPEG's own luminance, and Pillow computes it from the colors. Another version of
// libjpeg than Pillow's may round differently.
bool may_differ(const std::string& path, ImageReadMode mode) {
  return path.ends_with(".jpg") && mode == ImageReadMode::kGray;
}

TEST(ImageParity, PicturesOfAllKindsEqualTorchvisions) {
  const ScratchDirectory scratch;
  const std::string folder = scratch.path(), seed = "1";
  const std::string command =
      fmt::format("{} -B {} {} {}", MUSTER_TORCH_PYTHON, IMAGE_PARITY_SCRIPT, folder, seed);
  const int status = std::system(command.c_str());
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "torchvision is not installed";
  ASSERT_EQ(status, 0) << "seed " << seed;
  for (const auto& [name, mode] : {std::pair{"rgb", ImageReadMode::kRgb}, {"gray", ImageReadMode::kGray}}) {
    const ImageFolder images(folder + "/images", {.mode = mode});
    ASSERT_EQ(images.size(), 400);
    int equal = 0;
    for (std::int64_t i = 0; i < images.size(); ++i) {
      const std::string path = std::filesystem::relative(images.path(i), folder + "/images");
      const bool same = pixel_bytes(images.get(i).data) == contents(folder + "/" + name + "/" + path);
      EXPECT_TRUE(same || may_differ(path, mode)) << path << " " << name << ": " << command;
      equal += same;
    }
    EXPECT_GT(equal, 380);
  }
}

}  // namespace
}  // namespace muster
