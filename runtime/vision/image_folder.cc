#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>
#include <muster/data/batch_memory.h>
#include <muster/vision/image_folder.h>
#include <stdexcept>
#include <torch/torch.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "runtime/data/datasets/file_kind.h"
#include "runtime/data/datasets/stream_folder.h"
#include "runtime/vision/image_file.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostKinds = 5;  // named in one warning

// The entries of one folder, in no particular order.
struct Listing {
  std::vector<std::string> folders;
  std::vector<std::string> files;
  std::vector<std::string> others;  // pipes, sockets, devices
};

// Lists a folder. Many file systems give the type of each file together with its name. Then this function
// does not access the files.
Listing list(const std::string& path) {
  Listing found;
  std::error_code error;
  fs::directory_iterator each(path, error);
  if (error) throw std::runtime_error(fmt::format("cannot open {}: {}", path, error.message()));
  for (const fs::directory_iterator end; !error && each != end; each.increment(error)) {
    std::error_code ignored;
    if (each->is_directory(ignored)) {
      found.folders.push_back(each->path().filename());
    } else if (each->is_regular_file(ignored)) {
      found.files.push_back(each->path().filename());
    } else if (each->is_symlink(ignored) && !fs::exists(each->status(ignored))) {
      throw std::runtime_error(
          fmt::format("cannot use {}: it is a link to a file that does not exist", each->path().string()));
    } else {
      found.others.push_back(each->path().filename());
    }
  }
  if (error) throw std::runtime_error(fmt::format("cannot read {}: {}", path, error.message()));
  return found;
}

bool has_extension(std::string name, const std::vector<std::string>& extensions) {
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  return std::ranges::any_of(extensions, [&](const std::string& end) { return name.ends_with(end); });
}

// Counts the files that are not read, by kind, and keeps the first name of each kind.
class LeftOut {
 public:
  void add(const std::string& kind, const std::string& path) {
    Kind& its = kinds_.try_emplace(kind, Kind{.count = 0, .first = path}).first->second;
    ++its.count;
    ++count_;
  }
  std::int64_t count() const { return count_; }
  // Returns a text such as "2 .webp (cat/1.webp), 1 .db (dog/Thumbs.db)".
  std::string text() const {
    std::vector<std::string> said;
    for (const auto& [kind, files] : kinds_) {
      if (said.size() < kMostKinds)
        said.push_back(one_line(fmt::format("{} {} ({})", files.count, kind, files.first)));
    }
    if (kinds_.size() > kMostKinds) said.push_back(fmt::format("{} more kinds", kinds_.size() - kMostKinds));
    return fmt::format("{}", fmt::join(said, ", "));
  }

 private:
  struct Kind {
    std::int64_t count;
    std::string first;
  };
  std::map<std::string, Kind> kinds_;
  std::int64_t count_ = 0;
};

std::string ending_of(const std::string& name) {
  const std::string extension = fs::path(name).extension();
  return extension.empty() ? "without an extension" : extension;
}

struct FolderOfImages {
  std::string path;
  std::vector<std::string> images;
  bool operator<(const FolderOfImages& other) const { return path < other.path; }
};

void add_folders(const std::string& root, const std::string& path, const ImageFolderOptions& options,
                 std::vector<FolderOfImages>& folders, LeftOut& left_out) {
  Listing found = list(root + "/" + path);
  for (const std::string& name : found.others) left_out.add("pipe, socket or device", path + "/" + name);
  std::erase_if(found.files, [&](const std::string& name) {
    const bool unwanted = !has_extension(name, options.extensions);
    if (unwanted) left_out.add(ending_of(name), path + "/" + name);
    return unwanted;
  });
  std::ranges::sort(found.files);
  folders.push_back({path, std::move(found.files)});
  for (const std::string& folder : found.folders)
    add_folders(root, path + "/" + folder, options, folders, left_out);
}

}  // namespace

ImageFolder::ImageFolder(std::string root, ImageFolderOptions options)
    : root_(std::move(root)), options_(std::move(options)) {
  for (const auto check : {check_is_path, check_is_no_stream})
    if (const Status usable = check(root_); !usable) throw std::runtime_error(usable.error().message());
  classes_ = list(root_).folders;
  std::ranges::sort(classes_);
  if (classes_.empty())
    throw std::runtime_error(
        fmt::format("cannot use {}: it contains no folders, and each class is a folder", root_));
  LeftOut left_out;
  std::vector<std::string> empty;
  for (const std::string& name : classes_) {
    const auto target = static_cast<std::int64_t>(class_to_index_.size());
    class_to_index_.emplace(name, target);
    const std::size_t before = targets_.size();
    std::vector<FolderOfImages> folders;
    add_folders(root_, name, options_, folders, left_out);
    std::ranges::sort(folders, std::less());
    for (const FolderOfImages& folder : folders)
      for (const std::string& image : folder.images) add_image(folder.path + "/" + image, target);
    if (targets_.size() == before) empty.push_back(name);
  }
  if (!empty.empty() && !options_.allow_empty)
    throw std::runtime_error(fmt::format("cannot use {}: no file that ends in {} for the class{} {}{}", root_,
                                         fmt::join(options_.extensions, ", "), empty.size() == 1 ? "" : "es",
                                         fmt::join(empty, ", "),
                                         left_out.count() == 0 ? "" : "; not read: " + left_out.text()));
  if (left_out.count() > 0)
    log::warning("ImageFolder: {} below {} not read: {}; only names that end in {} are",
                 left_out.count() == 1 ? "1 file" : fmt::format("{} files", left_out.count()),
                 root_ + (left_out.count() == 1 ? " is" : " are"), left_out.text(),
                 fmt::join(options_.extensions, ", "));
}

void ImageFolder::add_image(std::string_view path, std::int64_t target) {
  paths_.append(path);
  path_ends_.push_back(paths_.size());
  targets_.push_back(target);
}

std::string ImageFolder::path(std::int64_t index) const {
  detail::check_index(*this, index);
  const auto i = static_cast<std::size_t>(index);
  const std::size_t begin = i == 0 ? 0 : path_ends_[i - 1];
  return fmt::format("{}/{}", root_, std::string_view(paths_).substr(begin, path_ends_[i] - begin));
}

Example ImageFolder::get(std::int64_t index) const {
  at::Tensor image = read_image(path(index), options_.mode);
  return {.data = std::move(image),
          .target = at::scalar_tensor(targets_[static_cast<std::size_t>(index)], at::kLong)};
}

Batch ImageFolder::get_batch(std::span<const std::int64_t> indices) const {
  detail::check_indices(*this, indices);
  const std::int64_t count = std::ssize(indices);
  Batch batch{.data = {}, .target = batch_empty({count}, at::kLong)};
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  std::uint8_t* planes = nullptr;
  ImageShape first;
  for (const std::int64_t index : indices) {
    try {
      const ImageFile file(path(index), options_.mode);
      if (planes == nullptr) {
        first = file.shape();
        batch.data = batch_empty({count, first.channels, first.height, first.width}, at::kByte);
        planes = batch.data.mutable_data_ptr<std::uint8_t>();
      }
      if (file.shape() != first)
        throw std::invalid_argument(
            fmt::format("its {} x {} pixels differ from the {} x {} of the first sample of the batch",
                        file.shape().width, file.shape().height, first.width, first.height));
      file.read_planes(planes);
    } catch (const std::exception&) {
      detail::rethrow_bad_sample(name(), index);
    }
    planes += first.bytes();
    *target++ = targets_[static_cast<std::size_t>(index)];
  }
  return batch;
}

}  // namespace muster
