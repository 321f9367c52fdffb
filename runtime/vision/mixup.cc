#include <algorithm>
#include <cmath>
#include <muster/data/sample_random.h>
#include <muster/vision/mixup.h>
#include <random>
#include <torch/torch.h>

#include "runtime/vision/image_argument.h"
#include "runtime/vision/mixing.h"

namespace muster::transforms {

namespace {

// Draws a number from the distribution Gamma(alpha), and returns its logarithm. If alpha is small, the number
// itself would underflow to 0, and beta_draw() would compute `0 / 0`.
//
// The number is a draw from Gamma(alpha + 1), multiplied by `u^(1 / alpha)`. u is uniform in (0, 1]. The
// product is a draw from Gamma(alpha). (Marsaglia, Tsang: A simple method for generating gamma variables,
// 2000.)
double log_gamma_draw(double alpha) {
  SampleRandom& random = sample_random();
  std::gamma_distribution<double> above(alpha + 1);
  const double draw = std::log(above(random));
  return draw + std::log1p(-random.uniform()) / alpha;
}

double beta_draw(double alpha) {
  const double first = log_gamma_draw(alpha), second = log_gamma_draw(alpha);
  return 1 / (1 + std::exp(second - first));
}

void check_options(std::string_view who, const MixUpOptions& options) {
  check_argument(options.alpha > 0 && std::isfinite(options.alpha), fmt::format("{}: alpha", who),
                 options.alpha, "above 0");
  check_argument(options.num_classes >= 0, fmt::format("{}: num_classes", who), options.num_classes,
                 "at least 1, or 0 if targets are [batch, classes]");
}

void check_batch(std::string_view who, const Batch& batch) {
  if (!batch.data.defined() || batch.data.dim() != 4)
    refuse(who, fmt::format("a batch must be [batch, channels, height, width], and this one is {}",
                            batch.data.defined() ? c10::str(batch.data.sizes()) : "undefined"));
  if (!batch.target.defined() || batch.target.dim() < 1 || batch.target.dim() > 2)
    refuse(who, fmt::format("targets must be [batch] or [batch, classes], and these are {}",
                            batch.target.defined() ? c10::str(batch.target.sizes()) : "undefined"));
  if (batch.target.size(0) != batch.data.size(0))
    refuse(who, fmt::format("{} targets do not fit {} images", batch.target.size(0), batch.data.size(0)));
  if (batch.data.numel() == 0) refuse(who, "the batch has no pixels: " + c10::str(batch.data.sizes()));
}

at::Tensor one_hot(std::string_view who, const at::Tensor& labels, std::int64_t num_classes) {
  if (num_classes == 0) refuse(who, "targets [batch] need num_classes");
  if (labels.scalar_type() != at::kLong)
    refuse(who, fmt::format("targets [batch] must be int64, and these are {}",
                            c10::toString(labels.scalar_type())));
  // Only labels on the CPU are checked. A check on a GPU would have to wait for the GPU. And on a GPU,
  // scatter_() itself fails if an index is wrong.
  if (labels.is_cpu()) {
    const auto [least, most] = labels.aminmax();
    const std::int64_t wrong =
        least.item<std::int64_t>() < 0 ? least.item<std::int64_t>() : most.item<std::int64_t>();
    check_argument(wrong >= 0 && wrong < num_classes, fmt::format("{}: a target", who), wrong,
                   fmt::format("from 0 to {}, one of the classes", num_classes - 1));
  }
  return at::zeros({labels.size(0), num_classes}, labels.options().dtype(at::kFloat))
      .scatter_(1, labels.unsqueeze(1), 1);
}

}  // namespace

at::Tensor mixed(const at::Tensor& rows, double share) {
  return rows.roll(1, 0).mul_(1 - share).add_(rows.mul(share));
}

at::Tensor mixed_labels(std::string_view who, const at::Tensor& labels, std::int64_t num_classes,
                        double share) {
  if (labels.dim() == 1) return mixed(one_hot(who, labels, num_classes), share);
  if (num_classes != 0 && labels.size(1) != num_classes)
    refuse(who,
           fmt::format("targets of {} classes do not fit num_classes = {}", labels.size(1), num_classes));
  return mixed(labels.is_floating_point() ? labels : labels.to(at::kFloat), share);
}

CutBox cut_box(const ImageSize& size, double share, std::int64_t x, std::int64_t y) {
  const double part = 0.5 * std::sqrt(1 - share);
  const auto half_width = static_cast<std::int64_t>(part * static_cast<double>(size.width));
  const auto half_height = static_cast<std::int64_t>(part * static_cast<double>(size.height));
  CutBox box{.left = std::max<std::int64_t>(x - half_width, 0),
             .top = std::max<std::int64_t>(y - half_height, 0),
             .right = std::min(x + half_width, size.width),
             .bottom = std::min(y + half_height, size.height),
             .share = 1};
  box.share = 1 - static_cast<double>((box.right - box.left) * (box.bottom - box.top)) /
                      static_cast<double>(size.width * size.height);
  return box;
}

at::Tensor cut_and_pasted(const at::Tensor& images, const CutBox& box) {
  const auto part = [&box](const at::Tensor& of) {
    return of.narrow(2, box.top, box.bottom - box.top).narrow(3, box.left, box.right - box.left);
  };
  at::Tensor pasted = images.clone();
  part(pasted).copy_(part(images).roll(1, 0));
  return pasted;
}

MixUp::MixUp(MixUpOptions options) : options_(options) {
  check_options("MixUp", options_);
}

Batch MixUp::operator()(const Batch& batch) const {
  check_batch("MixUp", batch);
  if (!batch.data.is_floating_point())
    refuse("MixUp",
           fmt::format("images must be floating, and these are {}", c10::toString(batch.data.scalar_type())));
  const double share = beta_draw(options_.alpha);
  return {.data = mixed(batch.data, share),
          .target = mixed_labels("MixUp", batch.target, options_.num_classes, share)};
}

CutMix::CutMix(MixUpOptions options) : options_(options) {
  check_options("CutMix", options_);
}

Batch CutMix::operator()(const Batch& batch) const {
  check_batch("CutMix", batch);
  const double share = beta_draw(options_.alpha);
  const ImageSize size(batch.data.size(2), batch.data.size(3));
  const std::int64_t x = sample_random().below(size.width), y = sample_random().below(size.height);
  const CutBox box = cut_box(size, share, x, y);
  return {.data = cut_and_pasted(batch.data, box),
          .target = mixed_labels("CutMix", batch.target, options_.num_classes, box.share)};
}

}  // namespace muster::transforms
