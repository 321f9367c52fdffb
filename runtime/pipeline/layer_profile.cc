#include <algorithm>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <chrono>
#include <fmt/ranges.h>
#include <muster/comm/collectives.h>
#include <muster/pipeline/pipeline_layers.h>
#include <muster/pipeline/pipeline_split.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <torch/torch.h>
#include <unordered_set>

#include "common/base/log.h"
#include "runtime/model/allocated_bytes.h"
#include "runtime/pipeline/buffers_before.h"
#include "runtime/pipeline/layer_random.h"
#include "runtime/pipeline/pipeline_times.h"
#include "runtime/pipeline/stored_profile.h"
#include "runtime/pipeline/weight_grads.h"

namespace muster {

namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kOtherFloats = 8 << 20;  // more than fits into a core's caches

// Removes the gradients of a module. The destructor restores them.
class GradientsBefore {
 public:
  explicit GradientsBefore(const torch::nn::Module& module) {
    for (const at::Tensor& parameter : module.parameters())
      gradients_.emplace_back(parameter, parameter.grad());
    for (const auto& [parameter, gradient] : gradients_) parameter.mutable_grad() = at::Tensor();
  }
  GradientsBefore(const GradientsBefore&) = delete;
  GradientsBefore& operator=(const GradientsBefore&) = delete;
  ~GradientsBefore() {
    for (const auto& [parameter, gradient] : gradients_) parameter.mutable_grad() = gradient;
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> gradients_;
};

bool is_trained(const torch::nn::Module& module) {
  return std::ranges::any_of(module.parameters(), &at::Tensor::requires_grad);
}

class MeasuredLayer {
 public:
  // `needs_gradient` says that the inputs need gradients. That is so if an earlier layer has weights.
  MeasuredLayer(StageModule& module, const Tensors& inputs, bool needs_gradient, at::Tensor others)
      : module_(module),
        others_(std::move(others)),
        device_(inputs.empty() ? c10::Device(c10::kCPU) : inputs.front().device()) {
    for (const at::Tensor& input : inputs) {
      const bool differentiable =
          needs_gradient && torch::autograd::isDifferentiableType(input.scalar_type());
      inputs_.push_back(input.detach().set_requires_grad(differentiable));
      if (differentiable) sources_.push_back(inputs_.back());
    }
  }

  // Runs the layer once without measuring its time. This run allocates the gradients. Returns the outputs.
  Tensors begin(LayerProfile& profile) {
    const auto bytes = std::make_shared<AllocatedBytes>();
    const Tensors inputs = given();
    Tensors outputs;
    {
      const c10::DebugInfoGuard counting(c10::DebugInfoKind::PROFILER_STATE, bytes);
      outputs = module_.forward(inputs);
    }
    profile.activation_bytes = bytes->now();
    for (const at::Tensor& output : outputs) profile.output_shapes.push_back(output.sizes().vec());
    backward(outputs);
    for (at::Tensor& output : outputs) output = output.detach();
    return outputs;
  }

  // Keeps the activations of several microbatches alive at once, as a schedule does. If only one microbatch
  // was alive at a time, all of them would use the same memory, and would be faster than in a training.
  void measure(LayerProfile& profile, int repetitions) {
    constexpr int kUnderWay = 4;
    std::vector<double> forwards, wholes, inputs, weights;
    for (int begin = 0; begin < repetitions; begin += kUnderWay) {
      std::vector<Tensors> outputs;
      for (int i = begin; i < std::min(begin + kUnderWay, repetitions); ++i)
        outputs.push_back(forward(forwards));
      for (Tensors& each : outputs) {
        wholes.push_back(backward(each));
        each.clear();
        if (is_trained(module_)) profile.separable = backward_in_two_parts(inputs, weights);
      }
    }
    profile.forward = median_of(forwards);
    // Splits the time of the whole backward pass in the ratio of the times of its two parts.
    const double whole = median_of(wholes);
    const double parts = median_of(inputs) + median_of(weights);
    profile.weight = parts > 0 ? whole * median_of(weights) / parts : 0;
    profile.input = whole - profile.weight;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Returns the time after the GPU has done all its work.
  Clock::time_point now() const {
    if (!device_.is_cpu()) c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
    return Clock::now();
  }
  double seconds_since(Clock::time_point begin) const {
    return std::chrono::duration<double>(now() - begin).count();
  }

  // When a pipeline runs, a stage computes its other layers between two calls of one layer. So the layer's
  // weights are no longer in the core's caches at the second call. This function also removes them from the
  // caches.
  void leave_caches() const {
    if (others_.defined()) others_.add_(1);
  }

  // Returns copies of the inputs, because a layer can change its input in place.
  Tensors given() const {
    Tensors inputs;
    for (const at::Tensor& input : inputs_) inputs.push_back(input.clone());
    return inputs;
  }

  Tensors forward(std::vector<double>& times) const {
    leave_caches();
    const Tensors inputs = given();
    const auto begin = now();
    Tensors outputs = module_.forward(inputs);
    times.push_back(seconds_since(begin));
    return outputs;
  }

  // Returns the outputs that need a gradient, and their gradients.
  static std::pair<Tensors, Tensors> ends_of(const Tensors& outputs) {
    std::pair<Tensors, Tensors> ends;
    for (const at::Tensor& output : outputs) {
      if (!output.requires_grad()) continue;
      ends.first.push_back(output);
      ends.second.push_back(at::ones_like(output));
    }
    return ends;
  }

  // Returns the time of a backward pass in seconds. Weight gradients exist already, so the pass adds to them,
  // as it does for all microbatches but the first.
  double backward(const Tensors& outputs) const {
    leave_caches();
    const auto [ends, gradients] = ends_of(outputs);
    if (ends.empty()) return 0;
    for (const at::Tensor& source : sources_) source.mutable_grad() = at::Tensor();
    const auto begin = now();
    torch::autograd::backward(ends, gradients);
    return seconds_since(begin);
  }

  // Runs the backward pass in two parts. Appends the time of the first part to `inputs`, and the time of the
  // second to `weights`. Returns true if the first part computed no weight gradient.
  bool backward_in_two_parts(std::vector<double>& inputs, std::vector<double>& weights) const {
    WeightGrads later;
    Tensors outputs;
    {
      const Tensors given_inputs = given();
      const WeightGrads::Deferring deferring(later);
      outputs = module_.forward(given_inputs);
    }
    inputs.push_back(backward(outputs));
    leave_caches();
    const auto begin = now();
    later.compute();
    weights.push_back(seconds_since(begin));
    return std::ranges::all_of(module_.parameters(), [&](const at::Tensor& parameter) {
      return !parameter.requires_grad() || later.defers(parameter);
    });
  }

  StageModule& module_;
  at::Tensor others_;  // stands for the memory of the stage's other layers; only on a CPU
  c10::Device device_;
  Tensors inputs_, sources_;  // `sources_`: the inputs that need gradients
};

void count_parameters(const torch::nn::Module& module, LayerProfile& profile) {
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const at::Tensor& parameter : module.parameters()) {
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    profile.parameters += parameter.numel();
    profile.parameter_bytes += static_cast<std::int64_t>(parameter.nbytes());
  }
}

[[noreturn]] void refuse(int layer, const std::string& name, const Tensors& inputs, std::string_view why) {
  std::vector<std::string> shapes;
  for (const at::Tensor& input : inputs)
    shapes.push_back(fmt::format("[{}]", fmt::join(input.sizes(), ", ")));
  throw std::invalid_argument(fmt::format("profile_layers: layer {} ('{}') cannot compute with {}: {}", layer,
                                          name, fmt::join(shapes, ", "), why.substr(0, why.find('\n'))));
}

// Returns the stored profile if its layers have as many parameters and bytes of parameters as `layers`.
// Otherwise returns an empty list.
std::vector<LayerProfile> read_for(const PipelineLayers& layers, const StoredProfile& stored) {
  std::vector<LayerProfile> known = stored.read();
  if (known.empty()) return known;
  const std::vector<LayerProfile> now = profile_layers(layers, {});
  const bool fits = std::ranges::equal(known, now, [](const LayerProfile& left, const LayerProfile& right) {
    return left.parameters == right.parameters && left.parameter_bytes == right.parameter_bytes;
  });
  return fits ? known : std::vector<LayerProfile>();
}

std::vector<LayerProfile> measure_together(const PipelineLayers& layers, const Tensors& microbatch,
                                           const Group& group, const ProfileOptions& options) {
  nlohmann::json mine{{"measured", !microbatch.empty()}};
  barrier(group);
  try {
    mine["layers"] = json_of_profile(profile_layers(layers, microbatch, options));
  } catch (const std::exception& error) {  // the other ranks wait for this rank's answer
    mine["error"] = error.what();
  }
  const auto all = all_gather_object(group, mine);
  for (const nlohmann::json& each : all)
    if (each.contains("error")) throw std::invalid_argument(each["error"].get<std::string>());
  std::vector<std::vector<LayerProfile>> measured;
  for (const nlohmann::json& each : all)
    if (each["measured"]) measured.push_back(profile_of_json(each["layers"]));
  if (measured.empty()) return profile_of_json(all.front()["layers"]);
  if (!all.front()["measured"])
    throw std::invalid_argument(
        "profile_layers: the group's first rank has no microbatch, but others have: give it one too");
  std::vector<LayerProfile> profile = measured.front();
  for (double LayerProfile::* time : {&LayerProfile::forward, &LayerProfile::input, &LayerProfile::weight}) {
    for (std::size_t i = 0; i < profile.size(); ++i) {
      double sum = 0;
      for (const auto& of_rank : measured) sum += of_rank.at(i).*time;
      profile[i].*time = sum / static_cast<double>(measured.size());
    }
  }
  return profile;
}

}  // namespace

std::vector<LayerProfile> profile_layers(const PipelineLayers& layers, const Tensors& microbatch,
                                         const ProfileOptions& options) {
  std::vector<LayerProfile> profiles;
  std::optional<LayerRandom> random;
  if (!microbatch.empty()) random.emplace(/*seed=*/0, microbatch.front().device());
  const torch::AutoGradMode with_graph(true);
  Tensors inputs = microbatch;
  bool needs_gradient = false;
  at::Tensor others;
  if (!microbatch.empty() && microbatch.front().is_cpu()) others = at::zeros({kOtherFloats}, at::kFloat);
  for (int i = 0; i < layers.size(); ++i) {
    const auto module = layers.build(i, i + 1);
    LayerProfile& profile = profiles.emplace_back(LayerProfile{.name = layers.name(i)});
    count_parameters(*module, profile);
    if (microbatch.empty()) continue;
    for (const at::Tensor& input : inputs) profile.input_bytes += static_cast<std::int64_t>(input.nbytes());
    try {
      module->to(microbatch.front().device());
      const BuffersBefore buffers(*module);
      const GradientsBefore gradients(*module);
      MeasuredLayer layer(*module, inputs, needs_gradient, others);
      Tensors outputs = layer.begin(profile);
      layer.measure(profile, std::max(options.repetitions, 1));
      inputs = std::move(outputs);
    } catch (const c10::Error& error) {
      refuse(i, profile.name, inputs, error.what_without_backtrace());
    } catch (const std::exception& error) {
      refuse(i, profile.name, inputs, error.what());
    }
    needs_gradient = needs_gradient || is_trained(*module);
  }
  return profiles;
}

std::vector<LayerProfile> profile_layers(const PipelineLayers& layers, const Tensors& microbatch,
                                         const Group& group, const ProfileOptions& options) {
  const std::string directory = group.job().checkpoint_dir();
  std::optional<StoredProfile> stored;  // on the group's first rank
  nlohmann::json known = nlohmann::json::array();
  if (group.rank() == 0 && !microbatch.empty() && !directory.empty()) {
    stored.emplace(directory, layers, microbatch, group);
    try {
      known = json_of_profile(read_for(layers, *stored));
    } catch (const std::exception&) {  // a layer cannot be made: measuring reports it on all ranks
    }
  }
  known = broadcast_object(group, known, group.ranks().front());
  if (!known.empty()) {
    if (stored)
      log::info(
          "profile_layers: takes the times that an earlier start measured from {}; "
          "without this file it measures again",
          stored->path());
    return profile_of_json(known);
  }
  std::vector<LayerProfile> profile = measure_together(layers, microbatch, group, options);
  if (stored) stored->write(profile);
  return profile;
}

}  // namespace muster
