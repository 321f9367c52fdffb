#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/data/data_loader.h>
#include <muster/vision/image_folder.h>
#include <stdexcept>
#include <sys/stat.h>
#include <torch/torch.h>

#include "tests/scratch_directory.h"
#include "tests/unit/runtime/image_samples.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

namespace fs = std::filesystem;

class ImageFolderTest : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& bytes) {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path, std::ios::binary) << bytes;
  }
  // Two classes with 6 and 5 images of one size.
  void put_images() {
    const std::vector<ImageSample> samples = image_samples();
    for (std::size_t i = 0; i < 11; ++i)
      put((i % 2 == 0 ? "even/" : "odd/") + std::to_string(i) + ".jpg", samples[i % samples.size()].file);
  }
  std::vector<std::string> paths(const ImageFolder& images) const {
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < images.size(); ++i) all.push_back(images.path(i).substr(root_.size() + 1));
    return all;
  }

  ScratchDirectory scratch_;
  const std::string root_ = scratch_ / "train";
};

TEST_F(ImageFolderTest, OrdersClassesAndFilesAsTorchvisionDoes) {
  for (const char* path : {"dog/2.jpg", "dog/10.png", "dog/x/1.JPEG", "dog/x/z/1.jpg", "dog/x-y/0.jpg",
                           "dog/notes.txt", "Cat/b.jpg", "Cat/B.jpg", "stray.jpg"})
    put(path, "");
  fs::create_directory_symlink(root_ + "/Cat", root_ + "/dog/link");
  const ImageFolder images(root_);
  EXPECT_THAT(images.classes(), ElementsAre("Cat", "dog"));
  EXPECT_THAT(images.class_to_index(), ElementsAre(Pair("Cat", 0), Pair("dog", 1)));
  EXPECT_THAT(paths(images),
              ElementsAre("Cat/B.jpg", "Cat/b.jpg", "dog/10.png", "dog/2.jpg", "dog/link/B.jpg",
                          "dog/link/b.jpg", "dog/x/1.JPEG", "dog/x-y/0.jpg", "dog/x/z/1.jpg"));
  EXPECT_THAT(images.targets(), ElementsAre(0, 0, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(paths(ImageFolder(root_, {.extensions = {".png"}, .allow_empty = true})),
              ElementsAre("dog/10.png"));
}

// torchvision silently skips such files, and fails at the link only when it reads it.
TEST_F(ImageFolderTest, NamesTheFilesThatItDoesNotRead) {
  for (const char* path :
       {"cat/1.jpg", "cat/2.gif", "cat/more/3.gif", "dog/1.png", "dog/Thumbs.db", "stray.bmp"})
    put(path, "");
  ASSERT_EQ(mkfifo((root_ + "/dog/pipe.jpg").c_str(), 0600), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(ImageFolder(root_).size(), 2);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said,
              HasSubstr("4 files below " + root_ + " are not read: 1 .db (dog/Thumbs.db), 2 .gif (cat/"));
  EXPECT_THAT(
      said,
      HasSubstr(
          "1 pipe, socket or device (dog/pipe.jpg); only names that end in .jpg, .jpeg, .png, .ppm, .bmp, "
          ".pgm, .tif, .tiff, .webp are\n"));
  put("fish/3.gif", "");
  EXPECT_THAT([&] { ImageFolder images(root_); },
              ThrowsMessage<std::runtime_error>(
                  AllOf(HasSubstr("for the class fish; not read: "), HasSubstr("3 .gif ("))));
  fs::remove_all(root_ + "/fish");
  fs::create_symlink(root_ + "/gone.jpg", root_ + "/dog/2.jpg");
  EXPECT_THAT([&] { ImageFolder images(root_); },
              ThrowsMessage<std::runtime_error>("cannot use " + root_ +
                                                "/dog/2.jpg: it is a link to a file that does not exist"));
  fs::remove(root_ + "/dog/2.jpg");
  fs::create_directory_symlink(root_ + "/unmounted", root_ + "/bird");
  EXPECT_THAT([&] { ImageFolder images(root_); },
              ThrowsMessage<std::runtime_error>(HasSubstr(root_ + "/bird: it is a link")));
}

TEST_F(ImageFolderTest, ReturnsImagesWithTheirClass) {
  put_images();
  for (const ImageReadMode mode : {ImageReadMode::kRgb, ImageReadMode::kGray}) {
    const ImageFolder images(root_, {.mode = mode});
    const std::vector<std::int64_t> order{7, 0, 5};
    const Batch batch = images.get_batch(order);
    EXPECT_TRUE(batch.data.is_contiguous());
    EXPECT_TRUE(batch.target.equal(torch::tensor({1, 0, 0}, at::kLong)));
    for (std::int64_t i = 0; i < 3; ++i) {
      const Example one = images.get(order[static_cast<std::size_t>(i)]);
      EXPECT_TRUE(one.data.equal(read_image(images.path(order[static_cast<std::size_t>(i)]), mode)));
      EXPECT_TRUE(batch.data[i].equal(one.data));
      EXPECT_TRUE(batch.target[i].equal(one.target));
    }
  }
}

TEST_F(ImageFolderTest, SaysWhatIsWrongWithATree) {
  const auto refused = [&](const std::string& reason, ImageFolderOptions options = {}) {
    EXPECT_THAT([&] { ImageFolder(root_, options); },
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr(root_), HasSubstr(reason))));
  };
  refused("No such file or directory");
  put("1.jpg", "");
  refused("it contains no folders, and each class is a folder");
  put("dog/1.gif", "");
  put("cat/1.jpg", "");
  refused("no file that ends in .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff, .webp for the class dog");
  put("cow/1.txt", "");
  refused("no file that ends in .bmp, .jxl for the classes cat, cow, dog", {.extensions = {".bmp", ".jxl"}});
  EXPECT_EQ(ImageFolder(root_, {.allow_empty = true}).classes().size(), 3U);
}

TEST_F(ImageFolderTest, AnIndexOutOfRangeIsRefused) {
  put_images();
  const ImageFolder images(root_);
  const auto refusal =
      ThrowsMessage<std::out_of_range>("index 11 is out of range: " + root_ + " has 11 samples");
  EXPECT_THAT([&] { images.get(11); }, refusal);
  EXPECT_THAT([&] { images.path(11); }, refusal);
  EXPECT_THAT([&] { images.get_batch(std::vector<std::int64_t>{0, 11}); }, refusal);
}

TEST_F(ImageFolderTest, ABadImageIsNamedWithItsIndex) {
  put_images();
  const std::string jpeg = image_sample("jpeg").file;
  put("even/4.jpg", jpeg.substr(0, jpeg.size() - 30));
  const ImageFolder images(root_);
  for (const int workers : {0, 2}) {
    DataLoader loader(images, {.batch_size = 4, .num_workers = workers}, 0, 1);
    EXPECT_THAT(
        [&] {
          for ([[maybe_unused]] auto& batch : loader.epochs(1)) {
          }
        },
        ThrowsMessage<std::runtime_error>(
            AllOf(HasSubstr("batch 0"), HasSubstr("cannot load sample 3 of " + root_),
                  HasSubstr("cannot read " + root_ + "/even/4.jpg: Premature end of JPEG file"))));
  }
  DataLoader skipping(images, {.batch_size = 11, .bad_sample = BadSample::kSkip}, 0, 1);
  for (auto& batch : skipping.epochs(1)) EXPECT_EQ(batch.data.size(0), 10);
  EXPECT_THAT(skipping.info().skipped, ElementsAre(3));
}

TEST_F(ImageFolderTest, AnImageOfAnotherSizeIsNamed) {
  put_images();
  std::string jpeg = image_sample("jpeg_gray").file;
  const std::size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg[frame + 6] = 8;  // its height
  put("even/10.jpg", jpeg);
  const ImageFolder images(root_);
  EXPECT_THAT([&] { images.get_batch(std::vector<std::int64_t>{0, 1, 2, 3}); },
              ThrowsMessage<std::runtime_error>(AllOf(
                  HasSubstr("cannot load sample 1 of " + root_),
                  HasSubstr("its 13 x 8 pixels differ from the 13 x 9 of the first sample of the batch"))));
}

}  // namespace
}  // namespace muster
