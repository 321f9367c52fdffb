#include <cstring>
#include <fmt/ranges.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <muster/vision/mixup.h>
#include <muster/vision/transforms.h>
#include <sstream>
#include <torch/torch.h>

#include "common/base/check.h"
#include "runtime/vision/augmentations.h"
#include "runtime/vision/functional.h"
#include "runtime/vision/mixing.h"
#include "tests/unit/runtime/image_samples.h"

// Compares with torchvision's results for the same images and parameters (transform_golden.py).

namespace muster::transforms::compared {
namespace {

using Words = std::vector<std::string>;

Words split(const std::string& text, char separator) {
  Words words;
  std::istringstream from(text);
  for (std::string word; std::getline(from, word, separator);) words.push_back(word);
  return words;
}

// Each line is a case and its result.
const std::vector<std::pair<Words, Words>>& golden() {
  static const auto kAll = [] {
    std::vector<std::pair<Words, Words>> all;
    std::ifstream file(MUSTER_TRANSFORM_GOLDEN);
    for (std::string line; std::getline(file, line);) {
      const Words sides = split(line, ':');
      all.emplace_back(split(sides.at(0), ' '), sides.size() > 1 ? split(sides[1], ' ') : Words());
    }
    CHECK(!all.empty(), "{}", MUSTER_TRANSFORM_GOLDEN);
    return all;
  }();
  return kAll;
}

std::vector<double> numbers(const std::string& text) {
  std::vector<double> values;
  for (const std::string& word : split(text, ',')) values.push_back(std::stod(word));
  return values;
}

std::int64_t whole(double value) {
  return static_cast<std::int64_t>(value);
}

std::optional<Fill> fill_of(const std::string& text) {
  if (text == "none") return std::nullopt;
  Fill fill;
  fill.values = numbers(text);
  return fill;
}

InterpolationMode mode_of(const std::string& text) {
  const std::map<std::string, InterpolationMode> modes{{"nearest", InterpolationMode::kNearest},
                                                       {"nearest-exact", InterpolationMode::kNearestExact},
                                                       {"bilinear", InterpolationMode::kBilinear},
                                                       {"bicubic", InterpolationMode::kBicubic}};
  return modes.at(text);
}

functional::Turn turn_of(const std::string& mode, const std::string& center, const std::string& fill) {
  functional::Turn turn{.who = "the test", .interpolation = mode_of(mode), .fill = fill_of(fill)};
  if (center != "none") turn.center = Point{numbers(center).at(0), numbers(center).at(1)};
  return turn;
}

// "channels height width bytes"; for float32, an f follows the bytes.
at::Tensor image_of(const Words& words) {
  const std::vector<std::int64_t> shape{std::stoll(words.at(0)), std::stoll(words.at(1)),
                                        std::stoll(words.at(2))};
  std::string data = words.at(3);
  const bool floating = data.ends_with('f') && data.size() % 2 == 1;
  if (floating) data.pop_back();
  const std::string bytes = from_hexadecimal(data);
  at::Tensor image = at::empty(shape, floating ? at::kFloat : at::kByte);
  CHECK(bytes.size() == static_cast<std::size_t>(image.nbytes()));
  std::memcpy(image.data_ptr(), bytes.data(), bytes.size());
  return image;
}

const at::Tensor& image_named(const std::string& name) {
  static const auto kImages = [] {
    std::map<std::string, at::Tensor> images;
    for (const auto& [words, result] : golden())
      if (words[0] == "image") images.emplace(words[1], image_of(result));
    return images;
  }();
  return kImages.at(name);
}

Augmentation augmentation_named(const std::string& name) {
  const auto found = std::ranges::find(kAugmentationNames, name);
  CHECK(found != kAugmentationNames.end(), "{}", name);
  return static_cast<Augmentation>(found - kAugmentationNames.begin());
}

using Case = at::Tensor (*)(const at::Tensor& image, const Words& given);

at::Tensor padded(const at::Tensor& image, const Words& given) {
  const std::map<std::string, PaddingMode> modes{{"constant", PaddingMode::kConstant},
                                                 {"edge", PaddingMode::kEdge},
                                                 {"reflect", PaddingMode::kReflect},
                                                 {"symmetric", PaddingMode::kSymmetric}};
  const auto sides = numbers(given[0]);
  const Padding padding = sides.size() == 1
                              ? Padding(whole(sides[0]))
                              : Padding(whole(sides[0]), whole(sides[1]), whole(sides[2]), whole(sides[3]));
  return Pad(padding, {.fill = *fill_of(given[1]), .padding_mode = modes.at(given[2])})(image);
}

at::Tensor resized(const at::Tensor& image, const Words& given) {
  const auto size = numbers(given[0]);
  return Resize(ImageSize(whole(size[0]), whole(size[1])),
                {.interpolation = mode_of(given[1]), .antialias = given[2] == "1"})(image);
}

at::Tensor rotated(const at::Tensor& image, const Words& given) {
  functional::Turn turn = turn_of(given[1], given[3], given[4]);
  turn.expand = given[2] == "1";
  return functional::rotate(image, std::stod(given[0]), turn);
}

at::Tensor affine(const at::Tensor& image, const Words& given) {
  const auto translate = numbers(given[1]), shear = numbers(given[3]);
  return functional::affine(image,
                            {.angle = std::stod(given[0]),
                             .translate = {translate[0], translate[1]},
                             .scale = std::stod(given[2]),
                             .shear = {shear[0], shear[1]}},
                            turn_of(given[4], given[5], given[6]));
}

at::Tensor perspective(const at::Tensor& image, const Words& given) {
  const auto ends = numbers(given[0]);
  std::array<Point, 4> corners{};
  for (std::size_t i = 0; i < corners.size(); ++i) corners[i] = {ends.at(2 * i), ends.at(2 * i + 1)};
  return functional::perspective(image, corners, turn_of(given[1], "none", given[2]));
}

at::Tensor augmented(const at::Tensor& image, const Words& given) {
  return augment(image, augmentation_named(given[0]), std::stod(given[1]),
                 turn_of(given[2], "none", given[3]));
}

at::Tensor mixed_up(const at::Tensor& image, const Words& given) {
  return mixed(at::stack({image, image * 0.5}), std::stod(given[0])).flatten(0, 1);
}

at::Tensor cut_and_mixed(const at::Tensor& image, const Words& given) {
  const auto middle = numbers(given[1]);
  const CutBox box =
      cut_box({image.size(1), image.size(2)}, std::stod(given[0]), whole(middle[0]), whole(middle[1]));
  return cut_and_pasted(at::stack({image, image.flip(2)}), box).flatten(0, 1);
}

const std::map<std::string, Case> kCases{
    {"image", [](const at::Tensor& image, const Words&) { return image; }},
    {"pad", padded},
    {"resize", resized},
    {"rotate", rotated},
    {"affine", affine},
    {"perspective", perspective},
    {"augment", augmented},
    {"mixup", mixed_up},
    {"cutmix", cut_and_mixed},
    {"gaussian_blur",
     [](const at::Tensor& image, const Words& given) {
       const auto size = numbers(given[0]);
       return GaussianBlur({whole(size[0]), whole(size[1])}, std::stod(given[1]))(image);
     }},
    {"adjust_brightness",
     [](const at::Tensor& image, const Words& given) {
       return functional::adjust_brightness(image, std::stod(given[0]));
     }},
    {"adjust_contrast",
     [](const at::Tensor& image, const Words& given) {
       return functional::adjust_contrast(image, std::stod(given[0]));
     }},
    {"adjust_saturation",
     [](const at::Tensor& image, const Words& given) {
       return functional::adjust_saturation(image, std::stod(given[0]));
     }},
    {"adjust_hue", [](const at::Tensor& image,
                      const Words& given) { return functional::adjust_hue(image, std::stod(given[0])); }},
    {"adjust_sharpness",
     [](const at::Tensor& image, const Words& given) {
       return functional::adjust_sharpness(image, std::stod(given[0]));
     }},
    {"posterize", [](const at::Tensor& image,
                     const Words& given) { return functional::posterize(image, std::stoi(given[0])); }},
    {"solarize", [](const at::Tensor& image,
                    const Words& given) { return functional::solarize(image, std::stod(given[0])); }},
    {"autocontrast", [](const at::Tensor& image, const Words&) { return functional::autocontrast(image); }},
    {"equalize", [](const at::Tensor& image, const Words&) { return functional::equalize(image); }},
    {"invert", [](const at::Tensor& image, const Words&) { return functional::invert(image); }},
};

// Another order of additions may round to the next value. A turn of the hue has no sums.
double tolerance(const std::string& name, const at::Tensor& image) {
  if (name == "adjust_hue") return 0;
  return image.is_floating_point() ? 1e-5 : 1;
}

TEST(TransformGolden, ImagesEqualTorchvisions) {
  int compared = 0, values = 0, differing = 0;
  for (const auto& [words, result] : golden()) {
    const auto kind = kCases.find(words[0]);
    if (kind == kCases.end()) continue;
    const at::Tensor& image = image_named(words[1]);
    const at::Tensor kept = image.clone();
    const at::Tensor expected = image_of(result);
    const at::Tensor made = kind->second(image, Words(words.begin() + 2, words.end()));
    const std::string what = fmt::format("{}", fmt::join(words, " "));
    EXPECT_TRUE(image.equal(kept)) << what;
    ASSERT_EQ(made.sizes(), expected.sizes()) << what;
    ASSERT_EQ(made.scalar_type(), expected.scalar_type()) << what;
    const at::Tensor difference = (made.to(at::kDouble) - expected.to(at::kDouble)).abs();
    const double allowed = tolerance(words[0], image);
    EXPECT_LE(difference.max().item<double>(), allowed) << what;
    ++compared;
    values += static_cast<int>(made.numel());
    differing += static_cast<int>(difference.gt(allowed / 2).sum().item<std::int64_t>());
  }
  EXPECT_GT(compared, 200);
  EXPECT_LE(differing * 100, values) << "values that differ";
  RecordProperty("differing", fmt::format("{} of {}", differing, values));
}

TEST(TransformGolden, MagnitudesEqualTorchvisions) {
  int compared = 0;
  for (const auto& [words, result] : golden()) {
    if (words[0] != "magnitudes") continue;
    const Augmentation augmentation = augmentation_named(words[3]);
    const Magnitudes magnitudes{.wide = words[1] == "wide", .bins = std::stoi(words[2])};
    EXPECT_EQ(is_signed(augmentation), words[4] == "1") << words[3];
    const ImageSize size(20, 24);
    EXPECT_EQ(magnitude_of(augmentation, magnitudes, 0, size).has_value(), !result.empty()) << words[3];
    for (std::size_t bin = 0; bin < result.size(); ++bin, ++compared)
      EXPECT_EQ(magnitude_of(augmentation, magnitudes, static_cast<int>(bin), size), std::stod(result[bin]))
          << words[1] << ' ' << words[3] << ' ' << bin;
  }
  EXPECT_GT(compared, 800);
}

TEST(TransformGolden, PoliciesAndChoicesEqualTorchvisions) {
  const std::map<std::string, AutoAugmentPolicy> policies{{"imagenet", AutoAugmentPolicy::kImageNet},
                                                          {"cifar10", AutoAugmentPolicy::kCifar10},
                                                          {"svhn", AutoAugmentPolicy::kSvhn}};
  int compared = 0;
  for (const auto& [words, result] : golden()) {
    if (words[0] == "choices") {
      const auto chosen = std::span(kAugmentationNames).first(kChosenAugmentations);
      EXPECT_TRUE(std::ranges::equal(result, chosen)) << words[1];
    }
    if (words[0] != "policy") continue;
    const std::span<const SubPolicy> policy = policy_of(policies.at(words[1]));
    ASSERT_EQ(policy.size(), 25U);
    for (std::size_t step = 0; step < 2; ++step) {
      const PolicyStep& ours = policy[std::stoul(words[2])][step];
      EXPECT_EQ(ours.augmentation, augmentation_named(result[3 * step])) << words[1] << ' ' << words[2];
      EXPECT_EQ(ours.probability, std::stod(result[3 * step + 1])) << words[1] << ' ' << words[2];
      EXPECT_EQ(ours.magnitude, std::stoi(result[3 * step + 2])) << words[1] << ' ' << words[2];
    }
    ++compared;
  }
  EXPECT_EQ(compared, 75);
}

TEST(TransformGolden, MixedLabelsEqualTorchvisions) {
  int compared = 0;
  for (const auto& [words, result] : golden()) {
    if (words[0] != "labels") continue;
    const auto labels = numbers(words[1]);
    const at::Tensor rows =
        mixed_labels("the test", at::tensor(labels).to(at::kLong), std::stoll(words[2]), std::stod(words[3]));
    ASSERT_EQ(rows.numel(), std::ssize(result));
    for (std::size_t i = 0; i < result.size(); ++i)
      EXPECT_EQ(rows.flatten()[static_cast<std::int64_t>(i)].item<double>(), std::stod(result[i]));
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

}  // namespace
}  // namespace muster::transforms::compared
