#include <cstdio>  // jpeglib.h needs it
// clang-format off
#include <jpeglib.h>
// clang-format on
#include <fmt/ranges.h>
#include <memory>
#include <muster/data/web_dataset.h>
#include <muster/vision/image.h>
#include <torch/torch.h>

#include "bench/formats/run.h"
#include "common/base/check.h"

namespace muster::bench {

struct Bytes {
  std::string bytes;
  std::int64_t target;
};
struct BytesBatch {
  std::vector<std::string> bytes;
  at::Tensor target;
};

}  // namespace muster::bench

template <>
struct muster::BatchOf<muster::bench::Bytes> {
  using type = muster::bench::BytesBatch;
};

namespace muster::bench {

namespace {

constexpr std::int64_t kSampleBatch = 64;

template <class Decode>
std::shared_ptr<const WebDataset<Decode>> web_dataset(const std::string& folder, Decode decode) {
  return std::make_shared<const WebDataset<Decode>>(archives_in(folder), std::move(decode));
}

// ---- JPEGs

Open muster_jpegs(const std::string& folder) {
  const auto dataset = web_dataset(folder, [](const WebSample& sample) {
    return Example{.data = decode_image(sample.bytes("jpg")),
                   .target = at::scalar_tensor(sample.number("cls"), at::kLong)};
  });
  return [dataset](int workers) {
    return muster_stream<Example>(dataset, kSampleBatch, workers,
                                  [](const Batch& batch) { return batch.target.size(0); });
  };
}

// Decodes files in memory. It reuses one structure for all pictures and requests all rows of a picture at
// once, as libjpeg-turbo's own tjDecompress2() does.
class Decompressor {
 public:
  Decompressor() {
    info_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&info_);
  }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  ~Decompressor() { jpeg_destroy_decompress(&info_); }

  void decode(const std::string& file) {
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    pixels_.resize(std::size_t{3} * info_.output_width * info_.output_height);
    rows_.resize(info_.output_height);
    for (std::size_t row = 0; row < rows_.size(); ++row)
      rows_[row] = pixels_.data() + row * 3 * info_.output_width;
    while (info_.output_scanline < info_.output_height)
      jpeg_read_scanlines(&info_, rows_.data() + info_.output_scanline,
                          info_.output_height - info_.output_scanline);
    jpeg_finish_decompress(&info_);
  }

 private:
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  std::vector<std::uint8_t> pixels_;
  std::vector<JSAMPROW> rows_;
};

Open libjpeg(const std::string& folder) {
  std::vector<std::string> files;
  const auto dataset =
      web_dataset(folder, [](WebSample sample) { return std::move(sample.parts.at("jpg")); });
  const auto reader = dataset->open({.index = 0, .count = 1, .epoch = 0, .seed = 0});
  while (auto file = reader->next()) files.push_back(*std::move(file));
  return [files = std::make_shared<const std::vector<std::string>>(std::move(files))](int) -> NextBatch {
    return [files, decompressor = std::make_shared<Decompressor>(), place = std::size_t{0}]() mutable {
      for (std::int64_t i = 0; i < kSampleBatch; ++i) decompressor->decode((*files)[place++ % files->size()]);
      return kSampleBatch;
    };
  };
}

// ---- Bytes

Open muster_samples(const std::string& folder) {
  const auto dataset = web_dataset(folder, [](WebSample sample) {
    const std::int64_t target = sample.number("cls");
    return Bytes{.bytes = std::move(sample.parts.at("bin")), .target = target};
  });
  return [dataset](int workers) {
    return muster_stream<Bytes>(dataset, kSampleBatch, workers,
                                [](const BytesBatch& batch) { return std::ssize(batch.bytes); });
  };
}

Open muster_members(const std::string& folder) {
  const auto dataset =
      web_dataset(folder, [](WebSample sample) { return std::move(sample.parts.at("bin")); });
  return [dataset](int workers) {
    return muster_stream<std::string>(
        dataset, 1, workers, [](const std::vector<std::string>& batch) { return std::ssize(batch); });
  };
}

// Runs a shell command that reads `samples` samples; the archives replace {}.
Prepare shell(std::string command, std::int64_t samples) {
  return [command = std::move(command), samples](const std::string& folder) -> Open {
    const std::string line = fmt::format(fmt::runtime(command), fmt::join(archives_in(folder), " "));
    return [line, samples](int) -> NextBatch {
      return [line, samples] {
        CHECK(std::system(line.c_str()) == 0, "{}", line);  // NOLINT: its own archives
        return samples;
      };
    };
  };
}

}  // namespace

Forms jpegs() {
  return {{"libjpeg", libjpeg}, {"muster", muster_jpegs}};
}

Forms samples() {
  return {{"cat", shell("cat {} > /dev/null", kArchives * kSamples)}, {"muster", muster_samples}};
}

Forms members() {
  return {{"cat", shell("cat {} > /dev/null", kMembers)},
          {"cat_cat", shell("cat {} | cat > /dev/null", kMembers)},
          {"muster", muster_members}};
}

}  // namespace muster::bench
