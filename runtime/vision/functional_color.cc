#include <algorithm>
#include <array>
#include <cmath>
#include <torch/torch.h>

#include "runtime/data/loader/one_compute_thread.h"
#include "runtime/vision/functional.h"
#include "runtime/vision/image_argument.h"

// The computations are the same as in torchvision/transforms/v2/functional/_color.py and _misc.py.

namespace muster::transforms::functional {

namespace {

at::Tensor blend(const at::Tensor& image, const at::Tensor& other, double share) {
  return image.mul(share).add_(other, 1 - share).clamp_(0, largest_value(image)).to(image.scalar_type());
}

// Changes the hue of a pixel. `turn` is a fraction of the whole color circle. The order of the operations is
// that of torchvision. This matters, because uint8 results are not rounded, but cut off. So even the last bit
// of a float can change a pixel.
void turn_hue(float* red, float* green, float* blue, float turn) {
  const float most = std::max({*red, *green, *blue}), least = std::min({*red, *green, *blue});
  const float range = most - least;
  if (range == 0) return;
  const float saturation = range / most;
  const float without_red = (most - *red) / range, without_green = (most - *green) / range,
              without_blue = (most - *blue) / range;
  float hue = most == *red     ? without_blue - without_green
              : most == *green ? without_red + 2 - without_blue
                               : without_green + 4 - without_red;
  hue *= 1.F / 6;
  hue = std::fmod(hue + 1, 1.F);
  hue = std::fmod(hue + turn, 1.F);
  if (hue < 0) hue += 1;
  const float sixths = hue * 6, sixth = std::floor(sixths);
  const float part = saturation * (sixths - sixth), rest = 1 - saturation;
  const float falling = std::clamp((1 - part) * most, 0.F, 1.F);
  const float rising = std::clamp((part + rest) * most, 0.F, 1.F);
  const float low = std::clamp(rest * most, 0.F, 1.F);
  const std::array<float, 6> of_red{most, falling, low, low, rising, most};
  const auto place = std::isfinite(sixth) ? static_cast<std::size_t>(sixth) % 6 : 0;
  *red = of_red[place];
  *green = of_red[(place + 4) % 6];
  *blue = of_red[(place + 2) % 6];
}

// Convolves each channel with a kernel [height, width] of the image's type.
at::Tensor convolved(const at::Tensor& image, const at::Tensor& kernel) {
  const at::Tensor of_each = kernel.expand({image.size(0), 1, kernel.size(0), kernel.size(1)});
  return at::conv2d(image.unsqueeze(0), of_each, {}, 1, at::IntArrayRef{0}, 1, image.size(0)).squeeze(0);
}

at::Tensor gaussian_kernel(std::int64_t size, double sigma, at::ScalarType type) {
  const double reach = static_cast<double>(size - 1) / (2 * std::sqrt(2.));
  return at::linspace(-reach, reach, size, type).div(sigma).pow(2).neg().softmax(0);
}

// Returns the new value for each value, by Pillow's histogram equalization. The new value depends on how many
// pixels have smaller values.
std::array<std::uint8_t, 256> equalizing(const std::array<std::int64_t, 256>& count, std::int64_t step) {
  std::array<std::uint8_t, 256> value_of{};
  std::int64_t before = step / 2;
  for (std::size_t value = 0; value < count.size(); ++value) {
    value_of[value] = static_cast<std::uint8_t>(std::min<std::int64_t>(before / step, 255));
    before += count[value];
  }
  return value_of;
}

// Equalizes one channel, whose bytes are contiguous.
void equalize_channel(std::uint8_t* bytes, std::int64_t size) {
  std::array<std::int64_t, 256> count{};
  for (std::int64_t i = 0; i < size; ++i) ++count[bytes[i]];
  std::size_t largest = count.size() - 1;
  while (count[largest] == 0) --largest;
  const std::int64_t step = (size - count[largest]) / 255;
  if (step == 0) return;
  const auto value_of = equalizing(count, step);
  for (std::int64_t i = 0; i < size; ++i) bytes[i] = value_of[bytes[i]];
}

}  // namespace

at::ScalarType floating_type(const at::Tensor& image) {
  return image.is_floating_point() ? image.scalar_type() : at::kFloat;
}

double largest_value(const at::Tensor& image) {
  return image.scalar_type() == at::kByte ? 255 : 1;
}

at::Tensor bytes_of(const at::Tensor& image) {
  return image.mul(256 - 1e-3).to(at::kByte);
}

at::Tensor gray(const at::Tensor& image) {
  if (image.size(0) == 1) return image;
  const at::Tensor value = image[0].mul(0.2989).add_(image[1], 0.587).add_(image[2], 0.114).unsqueeze(0);
  return value.to(image.scalar_type());
}

at::Tensor adjust_brightness(const at::Tensor& image, double factor) {
  return image.mul(factor).clamp_(0, largest_value(image)).to(image.scalar_type());
}

at::Tensor adjust_contrast(const at::Tensor& image, double factor) {
  // A loader's worker uses one thread. With several threads, the order of the additions, and so the sum,
  // would be different.
  const OneComputeThread one_thread;
  const at::Tensor values = gray(image);
  const double mean = values.sum(at::kDouble).item<double>() / static_cast<double>(values.numel());
  return blend(image, at::scalar_tensor(mean, image.mul(1.).options()), factor);
}

at::Tensor adjust_saturation(const at::Tensor& image, double factor) {
  return image.size(0) == 1 ? image : blend(image, gray(image), factor);
}

at::Tensor adjust_hue(const at::Tensor& image, double turn) {
  if (image.size(0) == 1) return image;
  at::Tensor colors =
      image.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).contiguous().mul_(1 / largest_value(image));
  const std::int64_t pixels = image.size(1) * image.size(2);
  auto* red = colors.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < pixels; ++i)
    turn_hue(red + i, red + pixels + i, red + 2 * pixels + i, static_cast<float>(turn));
  return image.scalar_type() == at::kByte ? bytes_of(colors) : colors.to(image.scalar_type());
}

at::Tensor adjust_sharpness(const at::Tensor& image, double factor) {
  const OneComputeThread one_thread;
  if (image.size(1) <= 2 || image.size(2) <= 2) return image;
  const double side = 1. / 13, middle = 5. / 13;
  const at::Tensor kernel = at::tensor({side, side, side, side, middle, side, side, side, side}, at::kDouble)
                                .to(floating_type(image))
                                .view({3, 3});
  at::Tensor sharpened = image.to(kernel.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  at::Tensor smooth = convolved(sharpened, kernel);
  if (!image.is_floating_point()) smooth.round_();
  at::Tensor inside = sharpened.narrow(1, 1, image.size(1) - 2).narrow(2, 1, image.size(2) - 2);
  inside.add_(smooth.sub_(inside), 1 - factor);
  return sharpened.clamp_(0, largest_value(image)).to(image.scalar_type());
}

at::Tensor gaussian_blur(const at::Tensor& image, const KernelSize& size, double sigma) {
  const OneComputeThread one_thread;
  const at::ScalarType type = floating_type(image);
  const at::Tensor kernel =
      gaussian_kernel(size.height, sigma, type).unsqueeze(-1) * gaussian_kernel(size.width, sigma, type);
  const at::Tensor padded = pad("GaussianBlur", image.to(type), {size.width / 2, size.height / 2},
                                {.padding_mode = PaddingMode::kReflect});
  at::Tensor blurred = convolved(padded, kernel);
  return image.is_floating_point() ? blurred : blurred.round_().to(image.scalar_type());
}

at::Tensor posterize(const at::Tensor& image, int bits) {
  if (image.is_floating_point()) {
    const double levels = 1 << bits;
    return image.mul(levels).floor_().clamp_(0, levels - 1).mul_(1 / levels);
  }
  return bits >= 8 ? image : image.bitwise_and(((1 << bits) - 1) << (8 - bits));
}

at::Tensor solarize(const at::Tensor& image, double threshold) {
  return at::where(image.ge(threshold), invert(image), image);
}

at::Tensor autocontrast(const at::Tensor& image) {
  const double bound = largest_value(image);
  const at::Tensor values = image.to(floating_type(image));
  at::Tensor least = values.amin({1, 2}, /*keepdim=*/true);
  at::Tensor scale = values.amax({1, 2}, /*keepdim=*/true).sub_(least).mul_(1 / bound);
  const at::Tensor flat = scale.eq(0);
  least.masked_fill_(flat, 0);
  scale.masked_fill_(flat, 1);
  return values.sub(least).div_(scale).clamp_(0, bound).to(image.scalar_type());
}

at::Tensor equalize(const at::Tensor& image) {
  const bool floating = image.is_floating_point();
  at::Tensor bytes = floating ? bytes_of(image) : image;
  bytes = bytes.contiguous();
  if (bytes.is_same(image)) bytes = bytes.clone();
  const std::int64_t size = image.size(1) * image.size(2);
  for (std::int64_t channel = 0; channel < image.size(0); ++channel)
    equalize_channel(bytes.data_ptr<std::uint8_t>() + channel * size, size);
  return floating ? bytes.to(image.scalar_type()).div_(255) : bytes;
}

at::Tensor invert(const at::Tensor& image) {
  return image.is_floating_point() ? 1 - image : image.bitwise_not();
}

}  // namespace muster::transforms::functional
