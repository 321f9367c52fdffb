#include <algorithm>
#include <cmath>
#include <numbers>
#include <torch/torch.h>

#include "runtime/data/loader/one_compute_thread.h"
#include "runtime/vision/functional.h"
#include "runtime/vision/image_argument.h"

// The computations are the same as in torchvision/transforms/v2/functional/_geometry.py, with the same types
// and the same order of additions. This matters: the last digit of a coordinate can decide which of two
// pixels is nearer.

namespace muster::transforms::functional {

namespace {

// A matrix for a geometric transform. It maps the position of a pixel of the result to a point of the image.
// The pixel of the result gets the color of that point. Positions and points are relative to the center of
// the image.
using Matrix = std::array<double, 6>;

void check_fill(std::string_view who, const Fill& fill, const at::Tensor& image) {
  const auto count = std::ssize(fill.values);
  if (count != 1 && count != image.size(0))
    refuse(who, fmt::format("fill: {} values do not fit an image of {} channels", count, image.size(0)));
}

at::Tensor column_of_fill(const Fill& fill, at::ScalarType type) {
  return at::tensor(fill.values, at::kDouble).to(type).view({-1, 1, 1});
}

// A row of `size` pixels gets `before` more pixels in front, and `after` more pixels behind. Each pixel of
// this padded row is a copy of a pixel of the original row. Returns the indices of these original pixels.
at::Tensor padded_indices(std::int64_t size, std::int64_t before, std::int64_t after, PaddingMode mode) {
  const at::Tensor places = at::arange(-before, size + after, at::kLong);
  if (mode == PaddingMode::kEdge) return places.clamp(0, size - 1);
  const std::int64_t repeated = mode == PaddingMode::kSymmetric ? 1 : 0;
  const at::Tensor above = at::where(places.lt(0), -places - repeated, places);
  return at::where(above.ge(size), 2 * (size - 1) + repeated - above, above);
}

at::Tensor padded_by_constant(const at::Tensor& image, const Padding& padding, const Fill& fill) {
  const std::array<std::int64_t, 4> sides{padding.left, padding.right, padding.top, padding.bottom};
  if (fill.values.size() == 1) return at::constant_pad_nd(image, sides, fill.values[0]);
  at::Tensor padded = column_of_fill(fill, image.scalar_type())
                          .expand({image.size(0), image.size(1) + padding.top + padding.bottom,
                                   image.size(2) + padding.left + padding.right})
                          .contiguous();
  padded.narrow(1, padding.top, image.size(1)).narrow(2, padding.left, image.size(2)).copy_(image);
  return padded;
}

double radians(double degrees) {
  return degrees * (std::numbers::pi / 180);
}

Matrix inverse_matrix(const Point& center, const Affine& affine) {
  const double turn = radians(affine.angle), shear_x = radians(affine.shear.x),
               shear_y = radians(affine.shear.y);
  const double a = std::cos(turn - shear_y) / std::cos(shear_y);
  const double b = -(a * std::tan(shear_x) + std::sin(turn));
  const double c = std::sin(turn - shear_y) / std::cos(shear_y);
  const double d = std::cos(turn) - c * std::tan(shear_x);
  Matrix matrix{d / affine.scale, -b / affine.scale, 0, -c / affine.scale, a / affine.scale, 0};
  const double x = center.x + affine.translate.x, y = center.y + affine.translate.y;
  matrix[2] += center.x - matrix[0] * x - matrix[1] * y;
  matrix[5] += center.y - matrix[3] * x - matrix[4] * y;
  return matrix;
}

Point from_middle(const at::Tensor& image, const std::optional<Point>& center) {
  if (!center) return {0, 0};
  return {center->x - static_cast<double>(image.size(2)) * 0.5,
          center->y - static_cast<double>(image.size(1)) * 0.5};
}

// Returns a tensor [1, height, width, 3] with the coordinates (x, y, 1) of each pixel. x goes in equal steps
// from `first.x` in the first column to `last.x` in the last column. y goes in the same way from the first
// row to the last.
at::Tensor places(const ImageSize& size, Point first, Point last, at::ScalarType type) {
  at::Tensor all = at::empty({1, size.height, size.width, 3}, type);
  all.select(3, 0).copy_(at::linspace(first.x, last.x, size.width, at::kFloat));
  all.select(3, 1).copy_(at::linspace(first.y, last.y, size.height, at::kFloat).unsqueeze(-1));
  all.select(3, 2).fill_(1);
  return all;
}

// Returns, for each pixel of the result, the point of the image that the pixel is taken from. The points have
// the form that grid_sampler() expects: they are relative to the center of the image, and their units are
// half of the image's width and half of its height.
at::Tensor affine_grid(const at::Tensor& image, const Matrix& matrix, const ImageSize& size) {
  const at::ScalarType type = floating_type(image);
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  const at::Tensor base =
      places(size, {(1 - width) * 0.5, (1 - height) * 0.5}, {(width - 1) * 0.5, (height - 1) * 0.5}, type);
  const at::Tensor halves = at::tensor(
      {0.5 * static_cast<double>(image.size(2)), 0.5 * static_cast<double>(image.size(1))}, at::kDouble);
  const at::Tensor theta =
      at::tensor(matrix, at::kDouble).to(type).view({1, 2, 3}).transpose(1, 2).div(halves.to(type));
  return base.view({1, size.height * size.width, 3}).bmm(theta).view({1, size.height, size.width, 2});
}

at::Tensor sampled(const at::Tensor& image, const at::Tensor& grid, const Turn& turn) {
  const bool nearest = turn.interpolation == InterpolationMode::kNearest;
  at::Tensor values = image.to(grid.scalar_type()).unsqueeze(0);
  if (turn.fill) {
    check_fill(turn.who, *turn.fill, image);
    values = at::cat({values, at::ones({1, 1, image.size(1), image.size(2)}, grid.options())}, 1);
  }
  values = at::grid_sampler(values, grid, nearest ? 1 : 0, /*padding_mode=*/0, /*align_corners=*/false);
  values = values.squeeze(0);
  if (turn.fill) {
    const at::Tensor fill = column_of_fill(*turn.fill, grid.scalar_type());
    const at::Tensor inside = values.narrow(0, image.size(0), 1);
    values = values.narrow(0, 0, image.size(0));
    values = nearest ? at::where(inside < 0.5, fill, values) : values.sub(fill).mul_(inside).add_(fill);
  }
  return image.is_floating_point() ? values : values.round_().to(image.scalar_type());
}

// Returns the smallest size that holds the whole rotated image.
ImageSize expanded(const at::Tensor& image, const Matrix& matrix) {
  const float width = 0.5F * static_cast<float>(image.size(2)),
              height = 0.5F * static_cast<float>(image.size(1));
  const at::Tensor corners =
      at::tensor({-width, -height, 1.F, -width, height, 1.F, width, height, 1.F, width, -height, 1.F},
                 at::kFloat)
          .view({4, 3});
  const at::Tensor theta = at::tensor(matrix, at::kDouble).to(at::kFloat).view({2, 3});
  auto [least, most] = corners.matmul(theta.t()).aminmax(0);
  const at::Tensor halves = at::tensor({width, height}, at::kFloat);
  // Cuts off after four decimals. Otherwise a rounding error of 1e-5 would add a row or column of pixels.
  const auto whole = [&](const at::Tensor& place) { return place.add(halves).mul_(1e4).trunc_().mul_(1e-4); };
  const at::Tensor size = whole(most).ceil_().sub_(whole(least).floor_());
  return {static_cast<std::int64_t>(size[1].item<float>()), static_cast<std::int64_t>(size[0].item<float>())};
}

// A perspective map takes a point (x, y) to the point `((a x + b y + c) / n, (d x + e y + f) / n)`, where n
// is `g x + h y + 1`. Returns the coefficients a to h of the map that takes the four points `from` to the
// four corners of the image.
std::array<double, 8> perspective_coefficients(const at::Tensor& image, const std::array<Point, 4>& from) {
  const auto right = static_cast<double>(image.size(2) - 1), bottom = static_cast<double>(image.size(1) - 1);
  const std::array<Point, 4> to{{{0, 0}, {right, 0}, {right, bottom}, {0, bottom}}};
  std::vector<double> equations, results;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto [x, y] = from[i];
    equations.insert(equations.end(), {x, y, 1, 0, 0, 0, -to[i].x * x, -to[i].x * y});
    equations.insert(equations.end(), {0, 0, 0, x, y, 1, -to[i].y * x, -to[i].y * y});
    results.insert(results.end(), {to[i].x, to[i].y});
  }
  const at::Tensor solution =
      std::get<0>(at::linalg_lstsq(at::tensor(equations, at::kDouble).view({8, 8}),
                                   at::tensor(results, at::kDouble).view({8, 1}), std::nullopt, "gels"))
          .view(-1)
          .to(at::kFloat)
          .to(at::kDouble);
  std::array<double, 8> coefficients{};
  for (std::size_t i = 0; i < coefficients.size(); ++i) coefficients[i] = solution.data_ptr<double>()[i];
  return coefficients;
}

}  // namespace

at::Tensor pad(std::string_view who, const at::Tensor& image, const Padding& padding,
               const PadOptions& options) {
  const PaddingMode mode = options.padding_mode;
  if (mode == PaddingMode::kConstant) {
    check_fill(who, options.fill, image);
    return padded_by_constant(image, padding, options.fill);
  }
  const std::int64_t missing = mode == PaddingMode::kReflect ? 1 : 0;
  const std::int64_t across = std::max(padding.left, padding.right),
                     down = std::max(padding.top, padding.bottom);
  if (mode != PaddingMode::kEdge && (across > image.size(2) - missing || down > image.size(1) - missing))
    refuse(who, fmt::format("{} pixels cannot be reflected by an image of height {} and width {}",
                            std::max(across, down), image.size(1), image.size(2)));
  return image.index_select(1, padded_indices(image.size(1), padding.top, padding.bottom, mode))
      .index_select(2, padded_indices(image.size(2), padding.left, padding.right, mode));
}

at::Tensor resize(const at::Tensor& image, const ImageSize& size, const ResizeOptions& options) {
  if (image.size(1) == size.height && image.size(2) == size.width) return image;
  const at::Tensor batch = image.unsqueeze(0);
  const std::array<std::int64_t, 2> to{size.height, size.width};
  const bool smooth = options.antialias, corners = false;
  switch (options.interpolation) {
    case InterpolationMode::kNearest: return at::upsample_nearest2d(batch, to).squeeze(0);
    case InterpolationMode::kNearestExact: return at::_upsample_nearest_exact2d(batch, to).squeeze(0);
    case InterpolationMode::kBilinear:
      return (smooth ? at::_upsample_bilinear2d_aa(batch, to, corners)
                     : at::upsample_bilinear2d(batch, to, corners))
          .squeeze(0);
    case InterpolationMode::kBicubic: break;
  }
  return (smooth ? at::_upsample_bicubic2d_aa(batch, to, corners)
                 : at::upsample_bicubic2d(batch, to, corners))
      .squeeze(0);
}

at::Tensor rotate(const at::Tensor& image, double angle, const Turn& turn) {
  const OneComputeThread one_thread;
  const double part = std::fmod(std::fmod(angle, 360) + 360, 360);
  const double quarters = part / 90;
  const bool fits = quarters == 0 || quarters == 2 || turn.expand || image.size(1) == image.size(2);
  if (!turn.center && fits && quarters == std::floor(quarters))
    return image.rot90(static_cast<std::int64_t>(quarters), {1, 2});
  const Matrix matrix = inverse_matrix(from_middle(image, turn.center), {.angle = -part});
  const ImageSize size = turn.expand ? expanded(image, matrix) : ImageSize(image.size(1), image.size(2));
  return sampled(image, affine_grid(image, matrix, size), turn);
}

at::Tensor affine(const at::Tensor& image, const Affine& affine, const Turn& turn) {
  const OneComputeThread one_thread;
  const Matrix matrix = inverse_matrix(from_middle(image, turn.center), affine);
  return sampled(image, affine_grid(image, matrix, {image.size(1), image.size(2)}), turn);
}

at::Tensor perspective(const at::Tensor& image, const std::array<Point, 4>& corners, const Turn& turn) {
  const OneComputeThread one_thread;
  const auto by = perspective_coefficients(image, corners);
  const at::ScalarType type = floating_type(image);
  const ImageSize size(image.size(1), image.size(2));
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  const at::Tensor base =
      places(size, {0.5, 0.5}, {width - 0.5, height - 0.5}, type).view({1, size.height * size.width, 3});
  const at::Tensor above = at::tensor({by[0], by[1], by[2], by[3], by[4], by[5]}, at::kDouble)
                               .to(type)
                               .view({1, 2, 3})
                               .transpose(1, 2)
                               .div(at::tensor({0.5 * width, 0.5 * height}, at::kDouble).to(type));
  const at::Tensor below =
      at::tensor({by[6], by[7], 1., by[6], by[7], 1.}, at::kDouble).to(type).view({1, 2, 3}).transpose(1, 2);
  const at::Tensor grid = base.bmm(above).div_(base.bmm(below)).sub_(1);
  return sampled(image, grid.view({1, size.height, size.width, 2}), turn);
}

}  // namespace muster::transforms::functional
