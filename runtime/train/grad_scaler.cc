#include <fmt/format.h>
#include <muster/checkpoint/state_part.h>
#include <muster/comm/collectives.h>
#include <muster/train/grad_scaler.h>
#include <stdexcept>
#include <torch/torch.h>

namespace muster {
namespace {

// Gradients by device and type. Each kernel call takes one entry.
using GradsByKind = std::map<std::pair<std::string, at::ScalarType>, std::vector<at::Tensor>>;

GradsByKind grads_of(torch::optim::Optimizer& optimizer) {
  GradsByKind all;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const at::Tensor& grad = parameter.grad();
      if (!grad.defined()) continue;
      if (grad.scalar_type() == at::kHalf)
        throw std::invalid_argument(fmt::format(
            "GradScaler: a parameter of shape {} is Half; keep parameters in Float, autocast casts them",
            c10::str(parameter.sizes())));
      all[{grad.device().str(), grad.scalar_type()}].push_back(grad.is_sparse() ? grad._values() : grad);
    }
  }
  return all;
}

}  // namespace

GradScaler::GradScaler(Group group, const GradScalerOptions& options)
    : group_(std::move(group)),
      options_(options),
      scale_(at::full({}, options.init_scale, at::dtype(at::kFloat).device(group_.device()))),
      growth_tracker_(at::zeros({}, at::dtype(at::kInt).device(group_.device()))) {
  if (!(options_.init_scale > 0))
    throw std::invalid_argument(
        fmt::format("GradScaler: init_scale is {}; it must be above 0", options_.init_scale));
  if (!(options_.growth_factor > 1))
    throw std::invalid_argument(
        fmt::format("GradScaler: growth_factor is {}; it must be above 1", options_.growth_factor));
  if (!(options_.backoff_factor > 0 && options_.backoff_factor < 1))
    throw std::invalid_argument(
        fmt::format("GradScaler: backoff_factor is {}; it must be between 0 and 1", options_.backoff_factor));
  if (options_.growth_interval < 1)
    throw std::invalid_argument(
        fmt::format("GradScaler: growth_interval is {}; it must be at least 1", options_.growth_interval));
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return options_.enabled ? loss * scale_.to(loss.device(), /*non_blocking=*/true) : loss;
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled) return;
  if (const auto found = optimizers_.find(&optimizer); found != optimizers_.end())
    throw std::logic_error(found->second.stage == Stage::kUnscaled
                               ? "GradScaler: unscale_() was called twice without update()"
                               : "GradScaler: unscale_() was called after step()");
  const at::NoGradGuard no_grad;
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  at::Tensor found_inf = at::zeros_like(scale_);
  for (auto& [kind, grads] : grads_of(optimizer)) {
    const at::Device device = grads.front().device();
    at::Tensor found_here = device == scale_.device() ? found_inf : at::zeros_like(scale_, device);
    at::_amp_foreach_non_finite_check_and_unscale_(grads, found_here, inverse.to(device));
    if (device != scale_.device()) found_inf += found_here.to(scale_.device());
  }
  if (group_.size() > 1) all_reduce(group_, found_inf, ReduceOp::kMax);
  optimizers_[&optimizer] = {Stage::kUnscaled, found_inf};
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  if (!optimizers_.contains(&optimizer)) unscale_(optimizer);
  OfOptimizer& of = optimizers_.at(&optimizer);
  if (of.stage == Stage::kStepped)
    throw std::logic_error("GradScaler: step() was called twice without update()");
  of.stage = Stage::kStepped;
  if (of.found_inf.item<float>() != 0) return false;
  optimizer.step();
  return true;
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!options_.enabled) return;
  const at::NoGradGuard no_grad;
  if (new_scale) {
    if (!(*new_scale > 0))
      throw std::invalid_argument(
          fmt::format("GradScaler: update() was given {}; a scale must be above 0", *new_scale));
    scale_.fill_(*new_scale);
  } else {
    if (optimizers_.empty())
      throw std::logic_error("GradScaler: update() was called without a step() or unscale_() before it");
    at::Tensor found_inf = at::zeros_like(scale_);
    for (const auto& [optimizer, of] : optimizers_) found_inf += of.found_inf;
    at::_amp_update_scale_(scale_, growth_tracker_, found_inf, options_.growth_factor,
                           options_.backoff_factor, options_.growth_interval);
  }
  optimizers_.clear();
}

double GradScaler::get_scale() const {
  return options_.enabled ? scale_.item<double>() : 1;
}
std::int64_t GradScaler::growth_tracker() const {
  return options_.enabled ? growth_tracker_.item<std::int64_t>() : 0;
}

void GradScaler::save(SavedState& to) const {
  to.shared_value("scale", write_number(scale_.item<double>()));
  to.shared_value("growth_factor", write_number(options_.growth_factor));
  to.shared_value("backoff_factor", write_number(options_.backoff_factor));
  to.shared_value("growth_interval", write_number(options_.growth_interval));
  to.shared_value("_growth_tracker", write_number(growth_tracker_.item<std::int64_t>()));
}

void GradScaler::load(LoadedState& from) {
  scale_.fill_(from.number<double>("scale"));
  options_.growth_factor = from.number<double>("growth_factor");
  options_.backoff_factor = from.number<double>("backoff_factor");
  options_.growth_interval = from.number<std::int64_t>("growth_interval");
  growth_tracker_.fill_(from.number<std::int64_t>("_growth_tracker"));
}

}  // namespace muster
