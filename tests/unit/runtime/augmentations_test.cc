#include "runtime/vision/augmentations.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <muster/data/data_loader.h>
#include <muster/vision/mixup.h>
#include <muster/vision/transforms.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/vision/functional.h"
#include "runtime/vision/mixing.h"

// The random numbers that augmentations draw. transform_golden_test.cc compares the results with torchvision.

namespace muster::transforms::drawn {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using testing::ThrowsMessage;

at::Tensor random_image(std::int64_t channels, std::int64_t height, std::int64_t width) {
  static at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(7);
  return at::randint(0, 256, {channels, height, width}, generator, at::kByte);
}

// A copy of the generator in the state that the next transform will find.
SampleRandom at_sample(std::int64_t index) {
  begin_sample(index);
  return sample_random();
}

template <class Draw>
std::vector<double> draws(int count, const Draw& draw) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) {
    begin_sample(i);
    all.push_back(draw());
  }
  return all;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double variance_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size());
}

TEST(Augmentations, RandomRotationTurnsByAnAngleWithinItsRange) {
  const at::Tensor image = random_image(3, 9, 12);
  const RandomRotation turn({-40, 10}, {.interpolation = InterpolationMode::kBilinear, .fill = {1, 2, 3}});
  std::vector<double> angles;
  for (int i = 0; i < 200; ++i) {
    angles.push_back(at_sample(i).uniform(-40, 10));
    ASSERT_TRUE(turn(image).equal(functional::rotate(
        image, angles.back(),
        {.who = "", .interpolation = InterpolationMode::kBilinear, .fill = Fill{1, 2, 3}})));
  }
  EXPECT_THAT(angles, Each(AllOf(Ge(-40), Le(10))));
  EXPECT_NEAR(mean_of(angles), -15, 3);
  EXPECT_EQ(RandomRotation(90, {.expand = true})(image).size(0), 3);
  EXPECT_EQ(RandomRotation({90, 90}, {.expand = true})(image).sizes(), (std::vector<std::int64_t>{3, 12, 9}));
}

TEST(Augmentations, RandomAffineDrawsFromEachRange) {
  // A ramp along x and one along y show the source of the result's center.
  const at::Tensor across = at::arange(101, at::kFloat).expand({1, 61, 101}),
                   down = at::arange(61, at::kFloat).view({1, 61, 1}).expand({1, 61, 101});
  const at::Tensor image = at::cat({across, down});
  const RandomAffine moved(0, {.translate = {0.2, 0.1}});
  const auto xs = draws(400, [&] { return 50 - moved(image)[0][30][50].item<double>(); });
  const auto ys = draws(400, [&] { return 30 - moved(image)[1][30][50].item<double>(); });
  EXPECT_THAT(xs, Each(AllOf(Ge(-20), Le(20))));
  EXPECT_THAT(ys, Each(AllOf(Ge(-6), Le(6))));
  EXPECT_NEAR(mean_of(xs), 0, 2);
  EXPECT_NEAR(std::sqrt(variance_of(xs)), 20.2 / std::sqrt(3), 1);
  EXPECT_NEAR(std::sqrt(variance_of(ys)), 6.1 / std::sqrt(3), 0.5);
  // The step from one pixel to the next is 1 / scale.
  const RandomAffine scaled(0, {.scale = {0.5, 2}, .interpolation = InterpolationMode::kBilinear});
  const auto scales = draws(400, [&] {
    const at::Tensor result = scaled(image);
    return 1 / (result[0][30][51] - result[0][30][50]).item<double>();
  });
  EXPECT_THAT(scales, Each(AllOf(Ge(0.499), Le(2.002))));
  EXPECT_NEAR(mean_of(scales), 1.25, 0.08);
  // From one row to the next, x changes by the tangent of the shear.
  const RandomAffine sheared(0, {.shear = {10, 30}, .interpolation = InterpolationMode::kBilinear});
  const auto shears = draws(400, [&] {
    const at::Tensor result = sheared(image);
    return std::atan((result[0][31][50] - result[0][30][50]).item<double>()) * 180 / M_PI;
  });
  EXPECT_THAT(shears, Each(AllOf(Ge(9.99), Le(30.01))));
  EXPECT_NEAR(mean_of(shears), 20, 1);
}

TEST(Augmentations, RandomPerspectiveMovesCornersInward) {
  const at::Tensor image = at::ones({1, 40, 60});
  int moved = 0;
  for (int i = 0; i < 300; ++i) {
    begin_sample(i);
    const at::Tensor result = RandomPerspective({.distortion_scale = 0.4, .p = 0.7})(image);
    moved += result.is_same(image) ? 0 : 1;
    // A corner moves by at most 0.4 of half a side: 8 and 12 pixels.
    ASSERT_TRUE(result.narrow(1, 9, 22).narrow(2, 13, 34).gt(0.999).all().item<bool>()) << i;
  }
  EXPECT_NEAR(moved, 210, 30);
  begin_sample(0);
  EXPECT_TRUE(RandomPerspective({.distortion_scale = 0, .p = 1})(image).gt(0.99).all().item<bool>());
}

TEST(Augmentations, GaussianBlurDrawsItsSigma) {
  const at::Tensor image = random_image(3, 12, 9).to(at::kFloat) / 255;
  for (int i = 0; i < 20; ++i) {
    const double sigma = at_sample(i).uniform(0.5, 3);
    ASSERT_TRUE(GaussianBlur({3, 5}, {0.5, 3})(image).equal(functional::gaussian_blur(image, {3, 5}, sigma)));
  }
}

TEST(Augmentations, RandomApplyAppliesAllOrNone) {
  const at::Tensor image = at::zeros({1, 2, 2});
  const auto plus = [](double value) { return [value](const at::Tensor& of) { return of + value; }; };
  std::map<double, int> seen;
  for (int i = 0; i < 1000; ++i) {
    begin_sample(i);
    ++seen[RandomApply({plus(1), plus(2)}, 0.3)(image)[0][0][0].item<double>()];
  }
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_NEAR(seen[3], 300, 50);
}

TEST(Augmentations, RandomChoiceAppliesOneTransformByItsWeight) {
  const at::Tensor image = at::zeros({1, 2, 2});
  const auto plus = [](double value) { return [value](const at::Tensor& of) { return of + value; }; };
  std::map<double, int> seen, alike;
  for (int i = 0; i < 1000; ++i) {
    begin_sample(i);
    ++seen[RandomChoice({plus(1), plus(2), plus(3)}, {3, 0, 1})(image)[0][0][0].item<double>()];
    begin_sample(i);
    ++alike[RandomChoice({plus(1), plus(2)})(image)[0][0][0].item<double>()];
  }
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_NEAR(seen[1], 750, 50);
  EXPECT_NEAR(alike[1], 500, 50);
}

TEST(Augmentations, RandAugmentChoosesAmongAllAndInBothDirections) {
  const at::Tensor image = random_image(3, 16, 18);
  std::map<std::pair<int, bool>, int> seen;
  for (int i = 0; i < 3000; ++i) {
    SampleRandom random = at_sample(i);
    const auto augmentation = static_cast<Augmentation>(random.below(kChosenAugmentations));
    auto magnitude = magnitude_of(augmentation, {.wide = false, .bins = 31}, 20, {16, 18});
    const bool negative = is_signed(augmentation) && random.chance(0.5);
    ++seen[{static_cast<int>(augmentation), negative}];
    if (i >= 200) continue;  // counted only
    ASSERT_TRUE(RandAugment({.num_ops = 1, .magnitude = 20})(image).equal(
        augment(image, augmentation, magnitude.value_or(0) * (negative ? -1 : 1), {.who = ""})))
        << kAugmentationNames[static_cast<std::size_t>(augmentation)];
  }
  EXPECT_EQ(seen.size(), 14U + 9U);
  for (const auto& [what, count] : seen)
    EXPECT_NEAR(count, is_signed(static_cast<Augmentation>(what.first)) ? 107 : 214, 60);
  EXPECT_TRUE(RandAugment({.num_ops = 0})(image).is_same(image));
}

TEST(Augmentations, TrivialAugmentWideDrawsAnyMagnitude) {
  const at::Tensor image = random_image(1, 16, 18);
  std::map<int, int> bins;
  for (int i = 0; i < 200; ++i) {
    SampleRandom random = at_sample(i);
    const auto augmentation = static_cast<Augmentation>(random.below(kChosenAugmentations));
    const auto bin = static_cast<int>(random.below(31));
    ++bins[bin];
    const auto magnitude = magnitude_of(augmentation, {.wide = true, .bins = 31}, bin, {16, 18});
    const bool negative = is_signed(augmentation) && random.chance(0.5);
    ASSERT_TRUE(TrivialAugmentWide()(image).equal(
        augment(image, augmentation, magnitude.value_or(0) * (negative ? -1 : 1), {.who = ""})));
  }
  EXPECT_GT(bins.size(), 28U);
}

TEST(Augmentations, AutoAugmentTakesOneOfItsPolicies) {
  const at::Tensor image = random_image(3, 16, 18);
  const auto policy = policy_of(AutoAugmentPolicy::kSvhn);
  for (int i = 0; i < 200; ++i) {
    SampleRandom random = at_sample(i);
    at::Tensor expected = image;
    for (const PolicyStep& step : policy[static_cast<std::size_t>(random.below(25))]) {
      if (!random.chance(step.probability)) continue;
      const auto magnitude =
          magnitude_of(step.augmentation, {.wide = false, .bins = 10}, step.magnitude, {16, 18});
      const bool negative = is_signed(step.augmentation) && random.chance(0.5);
      expected =
          augment(expected, step.augmentation, magnitude.value_or(0) * (negative ? -1 : 1), {.who = ""});
    }
    ASSERT_TRUE(AutoAugment({.policy = AutoAugmentPolicy::kSvhn})(image).equal(expected)) << i;
  }
}

Batch batch_of(std::int64_t count) {
  return {
      .data = at::arange(count, at::kFloat).view({count, 1, 1, 1}).expand({count, 1, 20, 30}).contiguous(),
      .target = at::arange(count, at::kLong)};
}

TEST(Augmentations, MixUpMixesImagesAndLabelsByTheSameShare) {
  const MixUp mix({.alpha = 0.4, .num_classes = 5});
  const auto shares = draws(4000, [&] {
    const Batch batch = mix(batch_of(4));
    const double share = batch.target[2][2].item<double>();
    EXPECT_NEAR(batch.target[2][1].item<double>(), 1 - share, 1e-6);
    EXPECT_NEAR(batch.data[2][0][7][7].item<double>(), 1 + share, 1e-5);
    EXPECT_NEAR(batch.data[0][0][0][0].item<double>(), 3 - 3 * share, 1e-5)
        << "the last image comes before the first";
    return share;
  });
  EXPECT_NEAR(mean_of(shares), 0.5, 0.03);
  EXPECT_NEAR(variance_of(shares), 1 / (4 * (2 * 0.4 + 1)), 0.01);  // of Beta(0.4, 0.4)
  const auto even =
      draws(4000, [&] { return MixUp({.num_classes = 4})(batch_of(4)).target[2][2].item<double>(); });
  EXPECT_NEAR(variance_of(even), 1. / 12, 0.005);
  const auto extreme = draws(
      200, [&] { return MixUp({.alpha = 1e-4, .num_classes = 4})(batch_of(4)).target[2][2].item<double>(); });
  for (const double share : extreme) EXPECT_TRUE(share < 1e-3 || share > 1 - 1e-3) << share;
  EXPECT_NEAR(mean_of(extreme), 0.5, 0.15);
}

TEST(Augmentations, CutMixPastesARectangleAndCountsItsPixels) {
  const CutMix mix({.num_classes = 4});
  const auto shares = draws(1000, [&] {
    const Batch before = batch_of(4), batch = mix(before);
    const at::Tensor pasted = batch.data[2][0].ne(2);
    const double part = pasted.to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(batch.target[2][1].item<double>(), part, 1e-6);
    EXPECT_NEAR(batch.target[2][2].item<double>(), 1 - part, 1e-6);
    EXPECT_TRUE(batch.data[2][0].masked_select(pasted).eq(1).all().item<bool>());
    // A whole rectangle, or nothing.
    const std::int64_t rows = pasted.any(1).sum().item<std::int64_t>(),
                       columns = pasted.any(0).sum().item<std::int64_t>();
    EXPECT_EQ(pasted.sum().item<std::int64_t>(), rows * columns);
    EXPECT_TRUE(before.data.equal(batch_of(4).data));
    return part;
  });
  EXPECT_GT(mean_of(shares), 0.2);
  EXPECT_LT(mean_of(shares), 0.5);  // the edges cut off some of the rectangles
}

TEST(Augmentations, MixedBatchesAreTheSameWithAnyNumberOfWorkers) {
  struct Numbers : Dataset<> {
    std::int64_t size() const override { return 40; }
    Example get(std::int64_t index) const override {
      return {.data = at::full({1, 4, 4}, static_cast<double>(index)),
              .target = at::scalar_tensor(index % 4, at::kLong)};
    }
  };
  const Numbers numbers;
  const MixUp mix({.num_classes = 4});
  const auto all = [&](int workers) {
    std::vector<Batch> batches;
    DataLoader loader(numbers, {.batch_size = 8, .num_workers = workers, .seed = 5}, 0, 1,
                      [&](std::vector<Example> samples) { return mix(default_collate(samples)); });
    for (auto& batch : loader.epochs(2)) batches.push_back({batch.data.clone(), batch.target.clone()});
    return batches;
  };
  const auto alone = all(0), helped = all(3);
  ASSERT_EQ(alone.size(), 10U);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(alone[i].data.equal(helped[i].data)) << i;
  EXPECT_FALSE(alone[0].data.equal(alone[5].data)) << "the epochs differ";
}

template <class Make>
void expect_refused(const Make& make, const std::string& reason) {
  EXPECT_THAT(make, ThrowsMessage<std::invalid_argument>(testing::Eq(reason)));
}

TEST(Augmentations, NameAWrongArgument) {
  constexpr auto kBicubic = InterpolationMode::kBicubic;
  expect_refused([] { Pad({1, 2, -3, 4}); }, "Pad: padding = -3 must be at least 0");
  expect_refused([] { RandomRotation(-1); },
                 "RandomRotation: degrees = {1, -1} must be a number of at least 0, "
                 "or two numbers, the smaller one first");
  expect_refused([] { RandomRotation(1, {.interpolation = kBicubic}); },
                 "RandomRotation: interpolation = kBicubic must be kNearest or kBilinear");
  expect_refused([] { RandomAffine(0, {.translate = {0.1, 1.5}}); },
                 "RandomAffine: translate.vertical = 1.5 must be from 0 to 1");
  expect_refused([] { RandomAffine(0, {.scale = {0, 1}}); },
                 "RandomAffine: scale = {0, 1} must be above 0, the smaller one first");
  expect_refused([] { RandomPerspective({.distortion_scale = 2}); },
                 "RandomPerspective: distortion_scale = 2 must be from 0 to 1");
  expect_refused([] { GaussianBlur(4); }, "GaussianBlur: kernel_size = 4 must be odd and at least 1");
  expect_refused([] { GaussianBlur(3, 0.); },
                 "GaussianBlur: sigma = {0, 0} must be above 0, the smaller one first");
  expect_refused([] { RandomApply({}); }, "RandomApply: the number of transforms = 0 must be at least 1");
  expect_refused([] { RandomChoice({RandomHorizontalFlip()}, {1, 2}); },
                 "RandomChoice: the number of p = 2 must be that of the transforms, 1");
  expect_refused([] { RandomChoice({RandomHorizontalFlip()}, {-1}); },
                 "RandomChoice: p = -1 must be at least 0");
  expect_refused([] { RandAugment({.magnitude = 31}); },
                 "RandAugment: magnitude = 31 must be from 0 to 30, one of the bins");
  expect_refused([] { TrivialAugmentWide({.num_magnitude_bins = 1}); },
                 "TrivialAugmentWide: num_magnitude_bins = 1 must be at least 2");
  expect_refused([] { MixUp({.alpha = 0}); }, "MixUp: alpha = 0 must be above 0");
}

TEST(Augmentations, NameAWrongImageOrBatch) {
  const at::Tensor image = random_image(3, 8, 8);
  expect_refused([&] { Pad(1, {.fill = {1, 2}})(image); },
                 "Pad: fill: 2 values do not fit an image of 3 channels");
  expect_refused([&] { RandomRotation({3, 4}, {.fill = {1, 2}})(image); },
                 "RandomRotation: fill: 2 values do not fit an image of 3 channels");
  expect_refused([&] { Pad(8, {.padding_mode = PaddingMode::kReflect})(image); },
                 "Pad: 8 pixels cannot be reflected by an image of height 8 and width 8");
  expect_refused([&] { GaussianBlur(17)(image); },
                 "GaussianBlur: 8 pixels cannot be reflected by an image of height 8 and width 8");
  expect_refused([&] { RandAugment()(random_image(2, 8, 8)); },
                 "RandAugment: an image must have 1 or 3 channels, and this one has 2");
  const MixUp mix({.num_classes = 3});
  expect_refused([&] { mix({.data = image.unsqueeze(0), .target = at::zeros({1}, at::kLong)}); },
                 "MixUp: images must be floating, and these are Byte");
  expect_refused([&] { mix({.data = at::ones({1, 2, 2}), .target = at::zeros({1}, at::kLong)}); },
                 "MixUp: a batch must be [batch, channels, height, width], and this one is [1, 2, 2]");
  expect_refused([&] { mix(batch_of(4)); }, "MixUp: a target = 3 must be from 0 to 2, one of the classes");
  expect_refused([&] { MixUp()(batch_of(4)); }, "MixUp: targets [batch] need num_classes");
  expect_refused(
      [&] { CutMix({.num_classes = 3})({.data = batch_of(2).data, .target = at::ones({3}, at::kLong)}); },
      "CutMix: 3 targets do not fit 2 images");
  expect_refused([&] { CutMix({.num_classes = 3})({.data = batch_of(2).data, .target = at::ones({2, 5})}); },
                 "CutMix: targets of 5 classes do not fit num_classes = 3");
}

}  // namespace
}  // namespace muster::transforms::drawn
