#include "runtime/pipeline/stage_runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <stdexcept>
#include <torch/torch.h>
#include <utility>

#include "common/base/check.h"
#include "runtime/pipeline/buffers_before.h"
#include "runtime/pipeline/layer_random.h"
#include "runtime/torch_versions.h"

namespace muster {

TensorKind kind_of_tensor(const at::Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.scalar_type(), tensor.requires_grad()};
}

std::string text_of(const std::vector<TensorKind>& kinds) {
  std::vector<std::string> texts;
  for (const TensorKind& each : kinds)
    texts.push_back(fmt::format("{} [{}]", c10::toString(each.type), fmt::join(each.shape, ", ")));
  return fmt::format("{}", fmt::join(texts, ", "));
}

StageRunner::StageRunner(const PipelineStage& stage, const PipelineLoss& loss, StageKinds& kinds,
                         bool recompute)
    : stage_(stage), loss_(loss), kinds_(kinds), recompute_(recompute) {}

void StageRunner::find_kinds(const std::vector<TensorKind>& inputs, const Pass& pass) {
  kinds_.inputs = inputs;
  std::vector<at::Tensor> empty;
  for (const TensorKind& each : inputs) {
    empty.push_back(at::zeros(each.shape, at::device(stage_.group().device()).dtype(each.type)));
    if (pass.trains && each.needs_grad) empty.back().requires_grad_();
  }
  const BuffersBefore buffers(*stage_.module());
  const torch::AutoGradMode grad(pass.trains);
  const LayerRandom random(pass.seed, stage_.group().device());
  kinds_.outputs.clear();
  for (const at::Tensor& each : forward_of(empty)) {
    if (!each.defined())
      throw std::invalid_argument(fmt::format("stage {} returns an undefined tensor", stage_.stage_index()));
    kinds_.outputs.push_back(kind_of_tensor(each));
  }
  if (kinds_.outputs.empty())
    throw std::invalid_argument(fmt::format("stage {} returns no tensor", stage_.stage_index()));
}

// Runs the stage's forward pass. The stage's inputs are leaves of its graph, so LibTorch throws if the stage
// changes them in place. In that case, throws an error that says what to write instead.
std::vector<at::Tensor> StageRunner::forward_of(const std::vector<at::Tensor>& inputs) const {
  try {
    return stage_.forward(inputs);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (stage_.is_first() || !text.contains("leaf Variable that requires grad")) throw;
    throw std::invalid_argument(fmt::format(
        "stage {} changes its input or a parameter in place, as a first layer ReLU(inplace) does: "
        "use an operation that is not in place ({})",
        stage_.stage_index(), text));
  }
}

void StageRunner::check_outputs(const std::vector<at::Tensor>& outputs) const {
  const auto alike = [&](std::size_t i) {
    return outputs[i].sizes() == at::IntArrayRef(kinds_.outputs[i].shape) &&
           outputs[i].scalar_type() == kinds_.outputs[i].type;
  };
  bool all = outputs.size() == kinds_.outputs.size();
  for (std::size_t i = 0; all && i < outputs.size(); ++i) all = alike(i);
  if (all) {
    for (std::size_t i = 0; i < outputs.size() && torch::GradMode::is_enabled(); ++i) {
      if (outputs[i].requires_grad() != kinds_.outputs[i].needs_grad)
        throw std::invalid_argument(
            fmt::format("an output of stage {} needs {} gradient, unlike in the first step: "
                        "make a new PipelineSchedule after layers are frozen or unfrozen",
                        stage_.stage_index(), outputs[i].requires_grad() ? "a" : "no"));
    }
    return;
  }
  std::vector<TensorKind> given;
  for (const at::Tensor& each : outputs) given.push_back(kind_of_tensor(each));
  throw std::invalid_argument(
      fmt::format("stage {} returns {}, but returned {} at first: the next stage needs the same shapes",
                  stage_.stage_index(), text_of(given), text_of(kinds_.outputs)));
}

void StageRunner::compute(Held& held, const Pass& pass, int microbatch) {
  const LayerRandom random(mix_seeds(pass.seed, static_cast<std::uint64_t>(microbatch)),
                           stage_.group().device());
  begin_layer(
      ~static_cast<std::uint64_t>(stage_.stage_index()));  // seeds a module that is not a list of layers
  std::optional<WeightGrads::Deferring> deferring;
  if (torch::GradMode::is_enabled()) {
    held.weights = std::make_unique<WeightGrads>();
    deferring.emplace(*held.weights);
  }
  std::vector<std::uint32_t> versions;
  if (recompute_) {
    for (const at::Tensor& each : held.inputs) versions.push_back(each._version());
  }
  held.outputs = stage_.forward(held.inputs);
  for (std::size_t i = 0; i < versions.size(); ++i) {
    if (held.inputs[i]._version() != versions[i])
      throw std::invalid_argument(
          fmt::format("stage {} changes its input in place, and so cannot be computed again: "
                      "its first operation must not be in place",
                      stage_.stage_index()));
  }
  deferring.reset();
  check_outputs(held.outputs);
  if (!stage_.is_last() || loss_ == nullptr || !held.target.defined()) return;
  held.loss = loss_(held.outputs.front(), held.target);
  if (held.loss.dim() != 0)
    throw std::invalid_argument(fmt::format(
        "the loss of a pipeline is a tensor of shape [{}]; it must be one number: take its mean()",
        fmt::join(held.loss.sizes(), ", ")));
}

std::vector<at::Tensor> StageRunner::forward(int microbatch, std::vector<at::Tensor> inputs,
                                             const at::Tensor& target, const Pass& pass) {
  Held held{.inputs = std::move(inputs), .outputs = {}, .target = target, .loss = {}, .weights = nullptr};
  if (pass.trains) {
    for (std::size_t i = 0; i < held.inputs.size(); ++i) {
      if (kinds_.inputs[i].needs_grad) held.inputs[i] = held.inputs[i].detach().requires_grad_();
    }
  }
  {
    const torch::AutoGradMode grad(pass.trains && !recompute_);
    const compat::CastsWithGraph casts;
    compute(held, pass, microbatch);
  }
  std::vector<at::Tensor> given;
  for (const at::Tensor& each : held.outputs) given.push_back(each.detach());
  // The loss is copied, because it can keep more memory alive than its one number needs. For example, the
  // loss of mse_loss() keeps all squares.
  if (held.loss.defined()) losses_[microbatch] = held.loss.detach().clone();
  if (!pass.trains) return given;
  if (recompute_) {
    held.outputs.clear();
    held.loss = at::Tensor();
  } else if (stage_.is_last()) {
    held.outputs.clear();  // the graph of the loss keeps what it needs
  }
  held_.emplace(microbatch, std::move(held));
  return given;
}

std::vector<at::Tensor> StageRunner::take_losses() {
  std::vector<at::Tensor> losses;
  for (auto& [microbatch, loss] : std::exchange(losses_, {})) losses.push_back(std::move(loss));
  return losses;
}

std::vector<at::Tensor> StageRunner::backward(int microbatch, const std::vector<at::Tensor>& gradients,
                                              const Pass& pass) {
  auto found = held_.find(microbatch);
  CHECK(found != held_.end(), "stage {} holds nothing of microbatch {}", stage_.stage_index(), microbatch);
  Held held = std::move(found->second);
  held_.erase(found);
  std::optional<BuffersBefore> buffers;
  if (recompute_) {
    buffers.emplace(*stage_.module());  // the first forward has already updated running statistics
    const torch::AutoGradMode grad(true);
    compute(held, pass, microbatch);
  }
  std::vector<at::Tensor> roots;
  std::vector<at::Tensor> given;
  if (stage_.is_last()) {
    roots.push_back(held.loss);
    given.push_back(at::full({}, pass.loss_scale, held.loss.options().requires_grad(false)));
  } else {
    for (std::size_t i = 0; i < held.outputs.size(); ++i) {
      if (kinds_.outputs[i].needs_grad) roots.push_back(held.outputs[i]);
    }
    given = gradients;
  }
  if (!roots.empty()) torch::autograd::backward(roots, given);
  if (held.weights != nullptr) weights_[microbatch] = std::move(held.weights);
  std::vector<at::Tensor> of_inputs;
  for (std::size_t i = 0; i < held.inputs.size(); ++i) {
    if (!kinds_.inputs[i].needs_grad) continue;
    const at::Tensor& gradient = held.inputs[i].grad();
    of_inputs.push_back(gradient.defined() ? gradient : at::zeros_like(held.inputs[i]));
  }
  return of_inputs;
}

void StageRunner::backward_weight(int microbatch) {
  const auto found = weights_.find(microbatch);
  if (found == weights_.end()) return;
  found->second->compute();
  weights_.erase(found);
}

void StageRunner::forget() {
  held_.clear();
  weights_.clear();
  losses_.clear();
}

}  // namespace muster
