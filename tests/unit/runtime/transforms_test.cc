#include <algorithm>
#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/data/data_loader.h>
#include <muster/vision/transforms.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/vision/functional.h"

namespace muster::transforms {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// The channels of a pixel lie side by side in memory, as read_image() returns them, or in separate planes.
at::Tensor random_image(std::int64_t channels, std::int64_t height, std::int64_t width,
                        bool side_by_side = true) {
  static at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const at::Tensor image =
      at::randint(0, 256, {height, width, channels}, generator, at::kByte).permute({2, 0, 1});
  return side_by_side ? image : image.contiguous();
}

using Pixel = std::function<double(std::int64_t channel, std::int64_t y, std::int64_t x)>;

// The result of `value` for each pixel, as double [channels, height, width].
at::Tensor made(std::int64_t channels, std::int64_t height, std::int64_t width, const Pixel& value) {
  at::Tensor image = at::empty({channels, height, width}, at::kDouble);
  auto* to = image.data_ptr<double>();
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x) *to++ = value(c, y, x);
  return image;
}

struct Reader {
  explicit Reader(const at::Tensor& image) : values(image.to(at::kDouble).contiguous()) {}
  double operator()(std::int64_t c, std::int64_t y, std::int64_t x) const {
    return values.data_ptr<double>()[(c * values.size(1) + y) * values.size(2) + x];
  }
  at::Tensor values;
};

double largest_difference(const at::Tensor& image, const at::Tensor& expected) {
  EXPECT_EQ(image.sizes(), expected.sizes());
  return image.sizes() == expected.sizes() ? (image.to(at::kDouble) - expected).abs().max().item<double>()
                                           : 1e9;
}

// A copy of the generator in the state that the next transform will find.
SampleRandom at_sample(std::int64_t index) {
  begin_sample(index);
  return sample_random();
}

TEST(Transforms, FlipsMirrorTheImage) {
  const at::Tensor image = random_image(3, 4, 5);
  const Reader old(image);
  EXPECT_EQ(largest_difference(RandomHorizontalFlip(1)(image),
                               made(3, 4, 5, [&](auto c, auto y, auto x) { return old(c, y, 4 - x); })),
            0);
  EXPECT_EQ(largest_difference(RandomVerticalFlip(1)(image),
                               made(3, 4, 5, [&](auto c, auto y, auto x) { return old(c, 3 - y, x); })),
            0);
  EXPECT_TRUE(RandomHorizontalFlip(0)(image).equal(image));
  int flipped = 0;
  for (int i = 0; i < 1000; ++i) {
    begin_sample(i);
    flipped += RandomVerticalFlip(0.3)(image).equal(image) ? 0 : 1;
  }
  EXPECT_NEAR(flipped, 300, 50);
}

TEST(Transforms, RandomCropTakesARandomPartOfThePaddedImage) {
  const at::Tensor image = random_image(2, 6, 7);
  const Reader old(image);
  const RandomCrop crop({5, 4}, {.padding = 2, .fill = 9});
  std::vector<int> tops(6);
  for (int i = 0; i < 200; ++i) {
    SampleRandom random = at_sample(i);
    const std::int64_t top = random.below(6 + 4 - 5 + 1) - 2, left = random.below(7 + 4 - 4 + 1) - 2;
    ++tops[static_cast<std::size_t>(top + 2)];
    const at::Tensor expected = made(2, 5, 4, [&](auto c, auto y, auto x) {
      const auto from_y = y + top, from_x = x + left;
      return from_y >= 0 && from_y < 6 && from_x >= 0 && from_x < 7 ? old(c, from_y, from_x) : 9;
    });
    ASSERT_EQ(largest_difference(crop(image), expected), 0) << i;
  }
  for (const int count : tops) EXPECT_GT(count, 10);
  // 3 rows are missing: 3 are added on each side.
  const at::Tensor grown = RandomCrop({9, 7}, {.pad_if_needed = true})(image);
  EXPECT_EQ(grown.sizes(), (std::vector<std::int64_t>{2, 9, 7}));
}

TEST(Transforms, CenterCropRoundsAsPythonDoes) {
  const auto corner = [](std::int64_t side, std::int64_t crop) {
    const at::Tensor rows = at::arange(side, at::kFloat).view({1, side, 1}).expand({1, side, side});
    return CenterCrop(crop)(rows)[0][0][0].item<float>();
  };
  EXPECT_EQ(corner(5, 3), 1);
  EXPECT_EQ(corner(5, 4), 0);  // round(0.5)
  EXPECT_EQ(corner(5, 2), 2);  // round(1.5)
  EXPECT_EQ(corner(9, 4), 2);  // round(2.5)
  const at::Tensor image = at::ones({1, 2, 3}, at::kByte);
  const at::Tensor expected = made(1, 5, 2, [](auto, auto y, auto) { return y == 1 || y == 2 ? 1 : 0; });
  EXPECT_EQ(largest_difference(CenterCrop({5, 2})(image), expected), 0);
}

// One dimension of a bilinear resize with antialiasing: weighs old pixels by a triangle as wide as a new
// pixel.
std::vector<double> weights_of(std::int64_t old_size, std::int64_t new_size, std::int64_t at) {
  const double step = static_cast<double>(old_size) / static_cast<double>(new_size);
  const double reach = std::max(step, 1.), center = (static_cast<double>(at) + 0.5) * step;
  std::vector<double> weights(static_cast<std::size_t>(old_size));
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = std::max(0., 1 - std::abs(static_cast<double>(i) + 0.5 - center) / reach);
    sum += weights[i];
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

TEST(Transforms, ResizeAveragesTheCoveredPixels) {
  const at::Tensor image = random_image(3, 20, 13);
  const Reader old(image);
  for (const auto& [height, width] :
       {std::pair(7, 11), std::pair(31, 13), std::pair(20, 40), std::pair(1, 1)}) {
    const at::Tensor expected = made(3, height, width, [&](auto c, auto y, auto x) {
      const auto down = weights_of(20, height, y), across = weights_of(13, width, x);
      double value = 0;
      for (std::size_t i = 0; i < down.size(); ++i)
        for (std::size_t j = 0; j < across.size(); ++j)
          value += down[i] * across[j] * old(c, static_cast<std::int64_t>(i), static_cast<std::int64_t>(j));
      return value;
    });
    const Resize resize(ImageSize(height, width));
    EXPECT_LE(largest_difference(resize(image.to(at::kFloat)), expected), 1e-3);
    EXPECT_LE(largest_difference(resize(image), expected), 1.01) << "bytes are rounded twice";
  }
  EXPECT_EQ(Resize(10)(image).sizes(), (std::vector<std::int64_t>{3, 15, 10}));
  EXPECT_EQ(Resize(26)(image.transpose(1, 2)).sizes(), (std::vector<std::int64_t>{3, 26, 40}));
}

TEST(Transforms, RandomResizedCropStaysWithinItsRanges) {
  // Channel 0 is the row, channel 1 the column: the slopes of the result tell the size of the box.
  const at::Tensor image =
      made(2, 100, 100, [](auto c, auto y, auto x) { return c == 0 ? y : x; }).to(at::kFloat);
  const RandomResizedCrop crop(8, {.scale = {0.2, 0.6}, .ratio = {0.5, 2}});
  double least = 1, most = 0, narrowest = 9, widest = 0;
  for (int i = 0; i < 300; ++i) {
    begin_sample(i);
    const Reader result(crop(image));
    const double height = (result(0, 5, 4) - result(0, 2, 4)) / 3 * 8;
    const double width = (result(1, 4, 5) - result(1, 4, 2)) / 3 * 8;
    const double share = height * width / 1e4;
    least = std::min(least, share), most = std::max(most, share);
    narrowest = std::min(narrowest, width / height), widest = std::max(widest, width / height);
  }
  EXPECT_NEAR(least, 0.2, 0.02);
  EXPECT_NEAR(most, 0.6, 0.02);
  EXPECT_NEAR(narrowest, 0.5, 0.05);
  EXPECT_NEAR(widest, 2, 0.2);
  // No box of that ratio fits: it takes the largest centered one.
  const at::Tensor line = at::arange(101, at::kFloat).view({1, 1, 101});
  EXPECT_EQ(RandomResizedCrop(1)(line).item<float>(), 50);
}

TEST(Transforms, RandomErasingFillsARectangle) {
  const at::Tensor image = at::ones({3, 40, 40});
  EXPECT_TRUE(RandomErasing({.p = 0})(image).equal(image));
  for (int i = 0; i < 50; ++i) {
    begin_sample(i);
    const at::Tensor erased = RandomErasing({.p = 1, .scale = {0.1, 0.2}, .value = 5})(image)[0] == 5;
    const double share = erased.to(at::kDouble).mean().item<double>();
    EXPECT_GT(share, 0.08);
    EXPECT_LT(share, 0.22);
    const auto rows = erased.any(1).sum().item<std::int64_t>(),
               columns = erased.any(0).sum().item<std::int64_t>();
    EXPECT_EQ(rows * columns, erased.sum().item<std::int64_t>());
  }
}

TEST(Transforms, RandomErasingTakesAValueForEachChannelOrNoise) {
  const at::Tensor image = at::ones({3, 60, 60});
  const auto erased = [&](const RandomErasingOptions& options) {
    begin_sample(3);
    return RandomErasing(options)(image);
  };
  const at::Tensor place = erased({.p = 1, .scale = {0.3, 0.3}, .value = 5})[0] == 5;
  const at::Tensor colors = erased({.p = 1, .scale = {0.3, 0.3}, .value = {7, 8, 9}});
  for (std::int64_t channel = 0; channel < 3; ++channel)
    EXPECT_TRUE((colors[channel] == 7 + channel).equal(place)) << channel;
  const RandomErasingOptions noise{.p = 1, .scale = {0.3, 0.3}, .random_value = true};
  const at::Tensor noisy = erased(noise);
  EXPECT_TRUE(noisy.masked_select(place.logical_not()).eq(1).all().item<bool>());
  const at::Tensor drawn = noisy.masked_select(place);  // some 3200 of a normal distribution
  EXPECT_LT(std::abs(drawn.mean().item<double>()), 0.1);
  EXPECT_LT(std::abs(drawn.std().item<double>() - 1), 0.1);
  EXPECT_TRUE(erased(noise).equal(noisy)) << "the noise comes from the sample's random numbers";
}

TEST(Transforms, ToDtypeAndNormalizeComputeAsTorchvisionDoes) {
  for (const bool side_by_side : {true, false}) {
    const at::Tensor image = random_image(3, 5, 4, side_by_side);
    const at::Tensor planes = image.contiguous();
    const auto* bytes = planes.data_ptr<std::uint8_t>();
    const at::Tensor scaled = ToDtype(at::kFloat, {.scale = true})(image);
    const at::Tensor normal = Normalize({0.1, 0.2, 0.3}, {0.5, 0.6, 0.7})(scaled);
    ASSERT_TRUE(scaled.is_contiguous());
    const float means[] = {0.1F, 0.2F, 0.3F}, stds[] = {0.5F, 0.6F, 0.7F};
    for (int i = 0; i < 60; ++i) {
      const float value = static_cast<float>(bytes[i]) / 255.F;
      EXPECT_EQ(scaled.data_ptr<float>()[i], value);
      EXPECT_EQ(normal.contiguous().data_ptr<float>()[i], (value - means[i / 20]) / stds[i / 20]);
    }
    EXPECT_TRUE(ToDtype(at::kByte, {.scale = true})(scaled).equal(image));
    EXPECT_TRUE(ToDtype(at::kFloat)(image).equal(image.to(at::kFloat)));
    EXPECT_TRUE(ToDtype(at::kByte)(image.to(at::kDouble)).equal(image));
  }
}

// The expected sizes are torchvision's (Resize(10, max_size=12) of 40 x 26, and so on).
TEST(Transforms, ResizeKeepsTheLongerSideBelowItsLimit) {
  const at::Tensor image = random_image(3, 40, 26);
  EXPECT_EQ(Resize(10, {.max_size = 12})(image).sizes(), (std::vector<std::int64_t>{3, 12, 8}));
  EXPECT_EQ(Resize(10, {.max_size = 12})(image.transpose(1, 2)).sizes(),
            (std::vector<std::int64_t>{3, 8, 12}));
  EXPECT_EQ(Resize(10, {.max_size = 15})(image).sizes(), (std::vector<std::int64_t>{3, 15, 10}));
  EXPECT_EQ(Resize(10, {.max_size = 14})(image).sizes(), (std::vector<std::int64_t>{3, 14, 9}));
}

double gray_of(const Reader& image, std::int64_t y, std::int64_t x) {
  return std::floor(0.2989 * image(0, y, x) + 0.587 * image(1, y, x) + 0.114 * image(2, y, x));
}

TEST(Transforms, GrayscaleWeighsTheColors) {
  const at::Tensor image = random_image(3, 6, 5);
  const Reader old(image);
  const at::Tensor expected = made(3, 6, 5, [&](auto, auto y, auto x) { return gray_of(old, y, x); });
  EXPECT_EQ(largest_difference(Grayscale(3)(image), expected), 0);
  EXPECT_TRUE(Grayscale()(image).equal(Grayscale(3)(image).narrow(0, 0, 1)));
}

TEST(Transforms, ColorJitterChangesBrightnessContrastAndSaturation) {
  const at::Tensor image = random_image(3, 6, 5);
  const Reader old(image);
  double mean = 0;
  for (int i = 0; i < 30; ++i) mean += gray_of(old, i / 5, i % 5) / 30;
  for (int i = 0; i < 20; ++i) {
    SampleRandom random = at_sample(i);
    const double factors[] = {random.uniform(0.5, 1.5), random.uniform(0.2, 1.8), random.uniform(0, 3)};
    const auto expect = [&](ColorJitterOptions options, int which, const Pixel& other) {
      const at::Tensor expected = made(3, 6, 5, [&](auto c, auto y, auto x) {
        const double factor = factors[which];
        return std::floor(std::clamp(old(c, y, x) * factor + other(c, y, x) * (1 - factor), 0., 255.));
      });
      begin_sample(i);  // the other factors are drawn too, from ranges of width 0
      EXPECT_LE(largest_difference(ColorJitter(options)(image), expected), 1) << which << " of " << i;
    };
    expect({.brightness = 0.5}, 0, [](auto, auto, auto) { return 0; });
    expect({.contrast = 0.8}, 1, [&](auto, auto, auto) { return mean; });
    expect({.saturation = 2}, 2, [&](auto, auto y, auto x) { return gray_of(old, y, x); });
  }
}

TEST(Transforms, ColorJitterTakesRanges) {
  const at::Tensor image = random_image(3, 6, 5).to(at::kFloat).div(255);
  for (int i = 0; i < 20; ++i) {
    begin_sample(i);
    const at::Tensor brighter = ColorJitter({.brightness = {0.25, 0.75}})(image);
    const at::Tensor factor = brighter.div(image).masked_select(image > 0.01);
    EXPECT_GT(factor.min().item<double>(), 0.2499);
    EXPECT_LT(factor.max().item<double>(), 0.7501);
    EXPECT_LT((factor.max() - factor.min()).item<double>(), 1e-4);
  }
  begin_sample(0);
  EXPECT_TRUE(ColorJitter({.brightness = {1, 1}, .hue = {0, 0}})(image).is_same(image));
  begin_sample(1);
  EXPECT_TRUE(ColorJitter({.hue = {0.25, 0.25}})(image).equal(functional::adjust_hue(image, 0.25)));
}

// Python's colorsys, by sectors.
std::array<double, 3> hue_turned(double r, double g, double b, double turn) {
  const double v = std::max({r, g, b}), low = std::min({r, g, b});
  if (v == low) return {v, v, v};
  const double s = (v - low) / v, rc = (v - r) / (v - low), gc = (v - g) / (v - low),
               bc = (v - b) / (v - low);
  double h = (r == v ? bc - gc : g == v ? 2 + rc - bc : 4 + gc - rc) / 6;
  h = std::fmod(std::fmod(h, 1.) + 2 + turn, 1.);
  const int sector = static_cast<int>(h * 6);
  const double f = h * 6 - sector, p = v * (1 - s), q = v * (1 - s * f), t = v * (1 - s * (1 - f));
  const std::array<std::array<double, 3>, 6> all{
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  return all[static_cast<std::size_t>(sector % 6)];
}

TEST(Transforms, ColorJitterTurnsTheHue) {
  const at::Tensor image = random_image(3, 6, 5);
  const Reader old(image);
  for (int i = 0; i < 20; ++i) {
    SampleRandom random = at_sample(i);
    for (int other = 0; other < 3; ++other) random.uniform();
    const double turn = random.uniform(-0.5, 0.5);
    const at::Tensor expected = made(3, 6, 5, [&](auto c, auto y, auto x) {
      return std::round(
          hue_turned(old(0, y, x), old(1, y, x), old(2, y, x), turn)[static_cast<std::size_t>(c)]);
    });
    begin_sample(i);
    EXPECT_LE(largest_difference(ColorJitter({.hue = 0.5})(image), expected), 1);
    begin_sample(i);
    const at::Tensor as_float = ColorJitter({.hue = 0.5})(ToDtype(at::kFloat, {.scale = true})(image));
    EXPECT_LE(largest_difference(as_float * 255, expected), 0.51);
  }
}

Compose everything() {
  return Compose(
      {RandomCrop(30, {.padding = 3}), RandomResizedCrop(24), RandomHorizontalFlip(), RandomVerticalFlip(),
       ColorJitter({.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1}), Resize(20),
       CenterCrop(18), ToDtype(at::kFloat, {.scale = true}), Normalize({0.5}, {0.25}), RandomErasing()});
}

TEST(Transforms, DoNotChangeTheirInput) {
  const at::Tensor image = random_image(3, 32, 32), kept = image.clone();
  for (int i = 0; i < 20; ++i) {
    begin_sample(i);
    everything()(image);
    ASSERT_TRUE(image.equal(kept));
  }
}

class Images : public Dataset<> {
 public:
  std::int64_t size() const override { return 40; }
  Example get(std::int64_t index) const override {
    const std::int64_t side = index == small_ ? 20 : 32;
    at::Tensor image = at::arange(3 * side * side, at::kLong).mul_(index + 7).remainder_(251).to(at::kByte);
    return {.data = image.view({3, side, side}), .target = at::scalar_tensor(index, at::kLong)};
  }
  std::string name() const override { return "the images"; }
  std::int64_t small_ = -1;
};

std::vector<Batch> all_batches(const Dataset<>& dataset, int workers, int world_size = 1) {
  std::vector<Batch> all;
  DataLoader loader(dataset, {.batch_size = 8 / world_size, .num_workers = workers, .seed = 3}, 0,
                    world_size);
  for (auto& batch : loader.epochs(2)) all.push_back({batch.data.clone(), batch.target.clone()});
  return all;
}

TEST(Transforms, GiveTheSameWithAnyNumberOfWorkersAndRanks) {
  const Images images;
  const auto dataset = transformed(images, everything());
  const std::vector<Batch> alone = all_batches(dataset, 0);
  ASSERT_EQ(alone.size(), 10U);
  EXPECT_FALSE(alone[0].data.equal(alone[5].data)) << "the epochs differ";
  for (const int workers : {1, 4}) {
    const std::vector<Batch> others = all_batches(dataset, workers);
    for (std::size_t i = 0; i < alone.size(); ++i) ASSERT_TRUE(others[i].data.equal(alone[i].data)) << i;
  }
  const std::vector<Batch> first_rank = all_batches(dataset, 2, 2);
  for (std::size_t i = 0; i < alone.size(); ++i)
    for (std::int64_t j = 0; j < 4; ++j) ASSERT_TRUE(first_rank[i].data[j].equal(alone[i].data[2 * j])) << i;
}

// Its samples and batches hold the number of threads that an operator would use.
class Threads : public Dataset<std::int64_t> {
 public:
  std::int64_t size() const override { return 4; }
  std::int64_t get(std::int64_t) const override { return at::get_num_threads(); }
};

TEST(Transforms, AndLoaderWorkersComputeInOneThread) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  int inside = 0;
  Compose({[&](const at::Tensor& image) {
    inside = at::get_num_threads();
    return image;
  }})(random_image(1, 2, 2));
  EXPECT_EQ(inside, 1);
  EXPECT_EQ(at::get_num_threads(), 3);
  const Threads threads;
  DataLoader loader(threads, {.batch_size = 4, .num_workers = 2}, 0, 1);
  for (auto& batch : loader.epochs(1)) EXPECT_TRUE(batch.equal(at::ones({4}, at::kLong))) << batch;
  EXPECT_EQ(at::get_num_threads(), 3);
  at::set_num_threads(before);
}

TEST(Transforms, AFunctionMayTakeTheWholeSample) {
  const Images images;
  const auto named = transformed(images, [](Example sample) {
    return std::pair(sample.data.sum(), std::to_string(sample.target.item<std::int64_t>()));
  });
  DataLoader loader(named, {.batch_size = 3}, 0, 1);
  for (auto& [sums, names] : loader.epochs(1)) {
    EXPECT_EQ(sums[2].item<std::int64_t>(), images.get(2).data.sum().item<std::int64_t>());
    EXPECT_THAT(names, testing::ElementsAre("0", "1", "2"));
    break;
  }
}

TEST(Transforms, AnImageThatDoesNotFitIsNamed) {
  Images images;
  images.small_ = 13;
  const auto dataset = transformed(images, RandomCrop({24, 30}));
  for (const int workers : {0, 2})
    EXPECT_THAT(
        [&] { all_batches(dataset, workers); },
        ThrowsMessage<std::runtime_error>(AllOf(
            HasSubstr("cannot load sample 13 of the images"),
            HasSubstr(
                "RandomCrop: a crop of 24 x 30 does not fit into an image of height 20 and width 20"))));
}

template <class Make>
void expect_refused(const Make& make, const std::string& reason) {
  EXPECT_THAT(make, ThrowsMessage<std::invalid_argument>(HasSubstr(reason)));
}

TEST(Transforms, NameAWrongImage) {
  const at::Tensor bytes = random_image(3, 8, 8);
  expect_refused([&] { RandomHorizontalFlip()(bytes[0]); },
                 "RandomHorizontalFlip: an image must be [channels, height, width], and this one is [8, 8]");
  expect_refused([&] { Resize(4)(bytes.to(at::kInt)); },
                 "Resize: an image must be uint8 or floating, and this one is Int");
  expect_refused([&] { ToDtype{at::kFloat}(at::empty({3, 8, 8}, at::device(at::kMeta).dtype(at::kByte))); },
                 "ToDtype: an image must be in the CPU's memory, and this one is on meta");
  expect_refused([&] { Resize(4)(at::empty({3, 0, 8})); }, "Resize: the image has no pixels: [3, 0, 8]");
  expect_refused([&] { Normalize({0}, {1})(bytes); },
                 "Normalize: an image must be floating, and this one is uint8");
  expect_refused([&] { Normalize({0, 0}, {1, 1})(bytes.to(at::kFloat)); },
                 "Normalize: 2 means do not fit an image of 3 channels");
  expect_refused([&] { RandomErasing({.random_value = true})(bytes); },
                 "RandomErasing: random values need a floating image");
  expect_refused([&] { RandomErasing({.value = {1, 2}})(bytes); },
                 "RandomErasing: 2 values do not fit an image of 3 channels");
  expect_refused([&] { ColorJitter({.hue = 0.1})(random_image(4, 2, 2)); },
                 "ColorJitter: an image must have 1 or 3 channels, and this one has 4");
}

TEST(Transforms, NameAWrongArgument) {
  expect_refused([] { RandomHorizontalFlip(1.5); }, "RandomHorizontalFlip: p = 1.5 must be from 0 to 1");
  expect_refused([] { RandomCrop(0); }, "RandomCrop: size = 0 must be at least 1");
  expect_refused([] { RandomCrop(1, {.padding = -1}); }, "RandomCrop: padding = -1 must be at least 0");
  expect_refused([] { RandomResizedCrop(1, {.scale = {1, 0.5}}); },
                 "RandomResizedCrop: scale = {1, 0.5} must be above 0, the smaller one first");
  expect_refused([] { Normalize({0, 0}, {1}); },
                 "Normalize: the number of stds = 1 must be that of the means, 2");
  expect_refused([] { Normalize({0}, {0}); }, "Normalize: std = 0 must be above 0");
  expect_refused([] { ToDtype{at::kInt}; }, "ToDtype: type = Int must be uint8 or floating");
  expect_refused([] { Grayscale(2); }, "Grayscale: num_output_channels = 2 must be 1 or 3");
  expect_refused([] { ColorJitter({.hue = 0.6}); }, "ColorJitter: hue = 0.6 must be from 0 to 0.5");
  expect_refused([] { ColorJitter({.hue = {-0.6, 0}}); },
                 "ColorJitter: hue = {-0.6, 0} must be from -0.5 to 0.5, the smaller one first");
  expect_refused([] { ColorJitter({.contrast = {2, 1}}); },
                 "ColorJitter: contrast = {2, 1} must be at least 0, the smaller one first");
  expect_refused([] { Resize(10, {.max_size = 10}); },
                 "Resize: max_size = 10 must be above the shorter side, 10, or 0 for any");
  expect_refused([] { Resize({10, 10}, {.max_size = 20}); },
                 "Resize: max_size = 20 must be 0 where both sides are given");
}

}  // namespace
}  // namespace muster::transforms
