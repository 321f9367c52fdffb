// The steps, their order and their rounding are those of
// torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py. One thing differs: this hook waits where the
// Python hook chains futures.

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <muster/checkpoint/state_part.h>
#include <muster/parallel/power_sgd.h>
#include <sstream>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/parallel/comm_hook.h"

namespace muster {
namespace {

// Makes the columns of each matrix orthonormal, in place. `matrices` has the shape [batch, rows, columns].
void orthogonalize(const at::Tensor& matrices, double epsilon) {
  const std::int64_t columns = matrices.size(2);
  const bool is_half = matrices.scalar_type() == at::kHalf || matrices.scalar_type() == at::kBFloat16;
  if (columns > 2 && !is_half) {
    matrices.copy_(std::get<0>(at::linalg_qr(matrices)));
    return;
  }
  for (std::int64_t i = 0; i < columns; ++i) {
    const at::Tensor column = matrices.narrow(2, i, 1);
    const at::Tensor norm = at::linalg_vector_norm(column, 2, at::IntArrayRef{1}, /*keepdim=*/true);
    column.div_(epsilon == 0 ? norm : norm + epsilon);
    if (i + 1 == columns) return;
    const at::Tensor rest = matrices.narrow(2, i + 1, columns - i - 1);
    rest.sub_(at::sum(column * rest, 1, /*keepdim=*/true) * column);
  }
}

// Draws the same number as numpy's RandomState(seed).randint(1'000'000'000).
std::uint64_t draw_seed(std::mt19937& random) {
  constexpr std::uint32_t kMost = 999'999'999, kMask = (1U << 30) - 1;
  while (true)
    if (const std::uint32_t value = static_cast<std::uint32_t>(random()) & kMask; value <= kMost)
      return value;
}

struct LowRank {
  at::Tensor gradient, p, q;  // [1, n, m], [1, n, r], [1, m, r] with the approximation's rank r
};
struct Parts {
  std::vector<LowRank> compressed;
  std::vector<at::Tensor> whole;
  std::int64_t p_size = 0, q_size = 0;
};

std::string size_lines(const std::map<std::int64_t, at::Tensor>& tensors) {
  std::string lines;
  for (const auto& [bucket, tensor] : tensors)
    lines += fmt::format("{} {} {}\n", bucket, tensor.numel(), static_cast<int>(tensor.scalar_type()));
  return lines;
}

std::map<std::int64_t, at::Tensor> zeros_of(const std::string& lines, at::Device device) {
  std::map<std::int64_t, at::Tensor> tensors;
  std::istringstream numbers(lines);
  std::int64_t bucket = 0, size = 0;
  for (int type = 0; numbers >> bucket >> size >> type;)
    tensors[bucket] = at::zeros({size}, at::dtype(static_cast<at::ScalarType>(type)).device(device));
  return tensors;
}

}  // namespace

class LowRankHook : public c10d::CppCommHookInterface<PowerSGDState*> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) final {
    const at::Tensor gradients = bucket.getBuffer();
    if (state_->iter_ < state_->options_.start_powerSGD_iter) {
      if (bucket.isLast()) ++state_->iter_;
      return start_mean(state_->group_.process_group(), gradients);
    }
    const auto index = static_cast<std::int64_t>(bucket.getIndex());
    const at::Tensor row = row_of(gradients);
    at::Tensor before;
    if (state_->options_.use_error_feedback) {
      if (const auto error = state_->errors_.find(index); error != state_->errors_.end())
        row.add_(error->second);
      before = row.clone();
    }
    reduce(bucket, row, index);
    if (state_->options_.use_error_feedback) state_->errors_[index] = before - row;
    if (bucket.isLast()) ++state_->iter_;
    return finished(gradients);
  }

 protected:
  c10::intrusive_ptr<c10d::Work> start_sum(const at::Tensor& tensor) const {
    std::vector<at::Tensor> list{tensor};
    return state_->group_.process_group()->allreduce(list);
  }

 private:
  // Returns the bucket's gradients in one row. The caller adds the error of the previous step to the row.
  virtual at::Tensor row_of(const at::Tensor& gradients) const = 0;
  // Reduces an approximation of the row. Replaces the row and the bucket's gradients by the mean of
  // the ranks' approximations.
  virtual void reduce(const c10d::GradBucket& bucket, const at::Tensor& row, std::int64_t index) = 0;
};

class PowerSGDHook : public LowRankHook {
 public:
  using LowRankHook::LowRankHook;

 private:
  at::Tensor row_of(const at::Tensor& gradients) const override { return gradients; }

  // Divides the gradients into those that are compressed and those that are sent whole. Compressed gradients
  // of the same shape are put together. The shapes have the order in which they first appear in the bucket.
  Parts parts_of(const c10d::GradBucket& bucket) {
    Parts parts;
    const auto rank = state_->options_.matrix_approximation_rank;
    std::vector<std::pair<std::vector<std::int64_t>, std::vector<at::Tensor>>> by_shape;
    for (const at::Tensor& each : bucket.getGradients()) {
      const at::Tensor matrix = each.dim() == 0 ? each.view({1, 1}) : each.view({each.size(0), -1});
      const std::int64_t n = matrix.size(0), m = matrix.size(1), r = std::min({n, m, rank});
      state_->before_ += n * m;
      if (static_cast<double>((n + m) * r) * state_->options_.min_compression_rate >=
          static_cast<double>(n * m)) {
        parts.whole.push_back(each);
        state_->after_ += n * m;
        continue;
      }
      state_->after_ += (n + m) * r;
      parts.p_size += n * r;
      parts.q_size += m * r;
      const std::vector<std::int64_t> shape{n, m};
      auto found = std::ranges::find(by_shape, shape, [](const auto& one) { return one.first; });
      if (found == by_shape.end()) found = by_shape.insert(found, {shape, {}});
      found->second.push_back(matrix);
    }
    for (const auto& [shape, matrices] : by_shape)
      for (const at::Tensor& matrix : matrices) parts.compressed.push_back({matrix.unsqueeze(0), {}, {}});
    return parts;
  }

  void place_factors(Parts& parts, const at::Tensor& ps, const at::Tensor& qs) const {
    std::int64_t p_at = 0, q_at = 0;
    for (LowRank& each : parts.compressed) {
      const std::int64_t n = each.gradient.size(1), m = each.gradient.size(2),
                         r = std::min({n, m, state_->options_.matrix_approximation_rank});
      each.p = ps.narrow(0, p_at, n * r).view({1, n, r});
      each.q = qs.narrow(0, q_at, m * r).view({1, m, r});
      p_at += n * r;
      q_at += m * r;
    }
  }

  void begin_factors(const Parts& parts, bool is_new) {
    at::Generator generator;
    if (is_new) generator = state_->next_generator();
    for (const LowRank& each : parts.compressed) {
      if (is_new) each.q.copy_(at::randn(each.q.sizes(), generator, at::dtype(each.q.scalar_type())));
      orthogonalize(each.q, state_->options_.orthogonalization_epsilon);
    }
  }

  void reduce(const c10d::GradBucket& bucket, const at::Tensor& row, std::int64_t index) override {
    const int size = state_->group_.size();
    Parts parts = parts_of(bucket);
    const auto options = row.options();
    const auto kept = state_->factors_.find(index);
    const bool is_new = kept == state_->factors_.end();
    const at::Tensor ps = at::empty({parts.p_size}, options),
                     qs = is_new ? at::empty({parts.q_size}, options) : kept->second;
    place_factors(parts, ps, qs);
    begin_factors(parts, is_new);

    at::Tensor whole;
    c10::intrusive_ptr<c10d::Work> whole_sum;
    if (!parts.whole.empty()) {
      std::vector<at::Tensor> rows;
      for (const at::Tensor& each : parts.whole) rows.push_back(each.reshape({-1}));
      whole = at::cat(rows);
      whole_sum = start_sum(whole);
    }
    for (LowRank& each : parts.compressed) at::bmm_out(each.p, each.gradient, each.q);
    if (whole_sum) {
      whole_sum->wait();
      whole.div_(size);
      std::int64_t begin = 0;
      for (const at::Tensor& each : parts.whole) {
        each.copy_(whole.narrow(0, begin, each.numel()).view(each.sizes()));
        begin += each.numel();
      }
    }
    if (parts.compressed.empty()) return;
    start_sum(ps)->wait();
    for (LowRank& each : parts.compressed) {
      orthogonalize(each.p, state_->options_.orthogonalization_epsilon);
      at::bmm_out(each.q, each.gradient.transpose(1, 2), each.p);
    }
    start_sum(qs)->wait();
    qs.div_(size);
    for (LowRank& each : parts.compressed) at::bmm_out(each.gradient, each.p, each.q.transpose(1, 2));
    if (state_->options_.warm_start) state_->factors_[index] = qs;
  }
};

// Puts all gradients of a bucket into one square matrix, padded with zeros.
class BatchedPowerSGDHook : public LowRankHook {
 public:
  using LowRankHook::LowRankHook;

 private:
  static std::int64_t side_of(std::int64_t gradients) {
    return static_cast<std::int64_t>(std::ceil(std::sqrt(gradients)));
  }

  at::Tensor row_of(const at::Tensor& gradients) const override {
    const std::int64_t side = side_of(gradients.numel());
    at::Tensor row = at::zeros({side * side}, gradients.options());
    row.narrow(0, 0, gradients.numel()).copy_(gradients);
    return row;
  }

  void reduce(const c10d::GradBucket& bucket, const at::Tensor& row, std::int64_t index) override {
    const PowerSGDOptions& options = state_->options_;
    const at::Tensor& gradients = bucket.getBuffer();
    const std::int64_t side = side_of(gradients.numel()),
                       rank = std::min(side, options.matrix_approximation_rank);
    const at::Tensor square = row.view({side, side});
    const auto kept = state_->factors_.find(index);
    const at::Tensor q = kept != state_->factors_.end() ? kept->second.view({side, rank})
                                                        : at::randn({side, rank}, state_->next_generator(),
                                                                    at::dtype(square.scalar_type()))
                                                              .to(square.device());
    orthogonalize(q.unsqueeze(0), options.orthogonalization_epsilon);
    const at::Tensor p = at::mm(square, q);
    start_sum(p)->wait();
    orthogonalize(p.unsqueeze(0), options.orthogonalization_epsilon);
    at::Tensor q_out = q, square_out = square;  // outputs in the memory of q and square
    at::mm_out(q_out, square.t(), p);
    start_sum(q)->wait();
    q.div_(state_->group_.size());
    at::mm_out(square_out, p, q.t());
    gradients.copy_(row.narrow(0, 0, gradients.numel()));
    state_->before_ += gradients.numel();
    state_->after_ += 2 * side * rank;
    if (options.warm_start) state_->factors_[index] = q.view({-1});
  }
};

at::Generator PowerSGDState::next_generator() {
  ++random_draws_;
  return at::make_generator<at::CPUGeneratorImpl>(draw_seed(random_));
}

PowerSGDState::PowerSGDState(Group group, const PowerSGDOptions& options)
    : group_(std::move(group)), options_(options), random_(options.random_seed) {
  if (options_.matrix_approximation_rank < 1)
    throw std::invalid_argument(
        fmt::format("PowerSGD: matrix_approximation_rank is {}; it must be at least 1",
                    options_.matrix_approximation_rank));
  if ((options_.use_error_feedback || options_.warm_start) && options_.start_powerSGD_iter <= 1)
    throw std::invalid_argument(
        fmt::format("PowerSGD: start_powerSGD_iter is {}; "
                    "with use_error_feedback or warm_start it must be above 1, "
                    "since the Reducer rebuilds its buckets after the first step",
                    options_.start_powerSGD_iter));
}

void PowerSGDState::save(SavedState& to) const {
  to.shared_value("iter", write_number(iter_));
  to.shared_value("before", write_number(before_));
  to.shared_value("after", write_number(after_));
  to.shared_value("random_draws", write_number(random_draws_));
  to.shared_value("errors", size_lines(errors_));
  to.shared_value("factors", size_lines(factors_));
  for (const auto& [bucket, error] : errors_) to.own(fmt::format("error.{}", bucket), error);
  for (const auto& [bucket, factor] : factors_) to.shared(fmt::format("factor.{}", bucket), factor);
}

void PowerSGDState::load(LoadedState& from) {
  iter_ = from.number<std::int64_t>("iter");
  before_ = from.number<std::int64_t>("before");
  after_ = from.number<std::int64_t>("after");
  random_draws_ = from.number<std::int64_t>("random_draws");
  random_.seed(options_.random_seed);
  for (std::int64_t i = 0; i < random_draws_; ++i) draw_seed(random_);
  errors_ = zeros_of(from.value("errors"), group_.device());
  factors_ = zeros_of(from.value("factors"), group_.device());
  for (const auto& [bucket, error] : errors_)
    if (const std::string name = fmt::format("error.{}", bucket); from.has_own(name))
      from.fill_own(name, error);
  for (const auto& [bucket, factor] : factors_) from.fill(fmt::format("factor.{}", bucket), factor);
}

std::unique_ptr<c10d::CommHookInterface> powerSGD_hook(PowerSGDState& state) {
  return std::make_unique<PowerSGDHook>(&state);
}
std::unique_ptr<c10d::CommHookInterface> batched_powerSGD_hook(PowerSGDState& state) {
  return std::make_unique<BatchedPowerSGDHook>(&state);
}

}  // namespace muster
