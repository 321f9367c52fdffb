// Writes Fashion-MNIST as JPEG files into a folder per class, for train_image_folder:
//
//   fashion_mnist_jpegs --out DIR && launch --gpus-per-node 2 train_image_folder --data-dir DIR
#include <array>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <muster/data/idx_dataset.h>
#include <stdexcept>
#include <torch/torch.h>

#include "examples/common/flags.h"
#include "examples/image_folder/jpeg_file.h"

namespace {

namespace fs = std::filesystem;

constexpr std::array kClasses{"tshirt", "trouser", "pullover", "dress", "coat",
                              "sandal", "shirt",   "sneaker",  "bag",   "ankle_boot"};
constexpr int kQuality = 90;

struct Options {
  std::string data_dir = "/usr/share/datasets/fashion-mnist";
  std::string out;
  std::int64_t train = 60000;
  std::int64_t val = 10000;
  std::int64_t side = 28;
  bool rgb = false;
};

Options parse_options(int argc, char** argv) {
  Options options;
  Flags flags("fashion_mnist_jpegs",
              "Writes Fashion-MNIST as JPEG files: OUT/train/CLASS/*.jpg and OUT/val/CLASS/*.jpg.");
  flags.required_text("--out", options.out, "folder to write into");
  flags.text("--data-dir", options.data_dir, "folder of the IDX files");
  flags.number("--train", options.train, "images to train on, at most 60000", 1);
  flags.number("--val", options.val, "images to test with, at most 10000", 1);
  flags.number("--side", options.side, "height and width in pixels; the images are scaled from 28", 1);
  flags.yes("--rgb", options.rgb, "write three channels: the image, its mirror image and its negative");
  flags.parse_or_exit(argc, argv);
  return options;
}

// [side, side, channels], uint8.
at::Tensor pixels_of(at::Tensor image, const Options& options) {
  if (options.side != image.size(2))
    image = at::upsample_bilinear2d(image.unsqueeze(0), {options.side, options.side}, false)[0];
  if (options.rgb) image = at::cat({image, image.flip(2), 1 - image});
  return image.mul(255).round_().to(at::kByte).permute({1, 2, 0}).contiguous();
}

void write(const muster::IdxDataset& images, std::int64_t count, const std::string& folder,
           const Options& options) {
  if (count > images.size())
    throw std::runtime_error(
        fmt::format("{} images for {}: there are only {}", count, folder, images.size()));
  for (const char* name : kClasses) fs::create_directories(folder + "/" + name);
  for (std::int64_t index = 0; index < count; ++index) {
    const muster::Example image = images.get(index);
    const at::Tensor pixels = pixels_of(image.data, options);
    const char* name = kClasses.at(static_cast<std::size_t>(image.target.item<std::int64_t>()));
    write_jpeg(fmt::format("{}/{}/{:05}.jpg", folder, name, index),
               {.pixels = pixels.data_ptr<std::uint8_t>(),
                .channels = options.rgb ? 3 : 1,
                .height = static_cast<int>(options.side),
                .width = static_cast<int>(options.side)},
               kQuality);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  try {
    const auto open = [&](const std::string& name) {
      return muster::IdxDataset(options.data_dir + "/" + name + "-images-idx3-ubyte.gz",
                                options.data_dir + "/" + name + "-labels-idx1-ubyte.gz");
    };
    write(open("train"), options.train, options.out + "/train", options);
    write(open("t10k"), options.val, options.out + "/val", options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fashion_mnist_jpegs: %s\n", error.what());
    return 2;
  }
  return 0;
}
