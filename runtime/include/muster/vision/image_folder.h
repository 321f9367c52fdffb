// Images in folders, one folder per class: torchvision.datasets.ImageFolder.
//
//   root/cat/1.jpg  root/cat/more/2.png  root/dog/3.jpg
//
// Classes are numbered in the sorted order of the folders in `root`. A class has the image files in its
// folder and in all folders below it, following links, in torchvision's order: sorted by folder, then by
// name. The constructor lists the tree once without opening a file. It prints one warning with the numbers
// and kinds of the files that it ignores. Several threads can read it at once.
#pragma once

#include <cstdint>
#include <map>
#include <muster/data/dataset.h>
#include <muster/vision/image.h>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct ImageFolderOptions {
  ImageReadMode mode = ImageReadMode::kRgb;
  // The endings of the names of images, in lower case. A name can have its ending in upper or lower case. The
  // default is torchvision's IMG_EXTENSIONS.
  std::vector<std::string> extensions = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                         ".pgm", ".tif",  ".tiff", ".webp"};
  bool allow_empty = false;  // allow classes without an image
};

class ImageFolder : public Dataset<> {
 public:
  // Throws std::runtime_error if a folder cannot be read, if a link is broken, or if there is no class.
  // Unless allow_empty is set, also throws std::runtime_error for a class without images.
  explicit ImageFolder(std::string root, ImageFolderOptions options = {});

  const std::vector<std::string>& classes() const { return classes_; }
  const std::map<std::string, std::int64_t>& class_to_index() const { return class_to_index_; }
  const std::vector<std::int64_t>& targets() const { return targets_; }  // the class of each image
  std::string path(std::int64_t index) const;

  std::int64_t size() const override { return static_cast<std::int64_t>(targets_.size()); }
  Example get(std::int64_t index) const override;  // read_image()'s tensor, and int64 []
  // All images must have the same size. The batch's data are contiguous uint8 [batch, channels, height,
  // width].
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  std::string name() const override { return root_; }

 private:
  void add_image(std::string_view path, std::int64_t target);

  std::string root_;
  ImageFolderOptions options_;
  std::vector<std::string> classes_;
  std::map<std::string, std::int64_t> class_to_index_;
  std::vector<std::int64_t> targets_;
  // The paths of all images, relative to root_, one after the other in a single string. For a million images
  // this takes less memory and time than a million strings.
  std::string paths_;
  std::vector<std::size_t> path_ends_;
};

}  // namespace muster
