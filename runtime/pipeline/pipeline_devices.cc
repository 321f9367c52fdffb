#include <ATen/ops/cat.h>
#include <algorithm>
#include <fmt/format.h>
#include <muster/pipeline/pipeline_devices.h>
#include <stdexcept>
#include <string>

namespace muster {

namespace {

using ModulePointer = std::shared_ptr<torch::nn::Module>;

[[noreturn]] void refuse(const std::string& prefix, const std::string& name) {
  throw std::invalid_argument(
      fmt::format("ModelParallel: two stages each have a {}{}, and these are different tensors: "
                  "give the modules in the stages other names, such as those of the undivided model",
                  prefix, name));
}

template <class Register>
void add_tensors(const torch::OrderedDict<std::string, at::Tensor>& tensors, const std::string& prefix,
                 torch::OrderedDict<std::string, at::Tensor>& added, Register add) {
  for (const auto& each : tensors) {
    const at::Tensor* before = added.find(each.key());
    if (before == nullptr)
      added.insert(each.key(), add(each.key(), each.value()));
    else if (!before->is_same(each.value()))
      refuse(prefix, each.key());
  }
}

// Registers the tensors and children of `parts` in `node`. If several parts have a child of the same name,
// the children are united into one module in the same way.
void unite(const std::vector<ModulePointer>& parts, const std::string& prefix, torch::nn::Module& node) {
  torch::OrderedDict<std::string, at::Tensor> parameters;
  torch::OrderedDict<std::string, at::Tensor> buffers;
  torch::OrderedDict<std::string, std::vector<ModulePointer>> children;
  for (const auto& part : parts) {
    add_tensors(part->named_parameters(/*recurse=*/false), prefix, parameters,
                [&](const std::string& name, const at::Tensor& value) {
                  return node.register_parameter(name, value, value.requires_grad());
                });
    add_tensors(
        part->named_buffers(/*recurse=*/false), prefix, buffers,
        [&](const std::string& name, const at::Tensor& value) { return node.register_buffer(name, value); });
    for (const auto& child : part->named_children()) {
      if (!children.contains(child.key())) children.insert(child.key(), {});
      auto& same = children[child.key()];
      if (std::ranges::find(same, child.value()) == same.end()) same.push_back(child.value());
    }
  }
  for (const auto& child : children) {
    ModulePointer only = child.value().front();
    if (child.value().size() > 1) {
      only = std::make_shared<torch::nn::Module>(child.key());
      unite(child.value(), prefix + child.key() + ".", *only);
    }
    node.register_module(child.key(), only);
  }
}

std::vector<std::vector<at::Tensor>> cut(const std::vector<at::Tensor>& inputs, std::int64_t split_size) {
  std::vector<std::vector<at::Tensor>> parts;
  for (const at::Tensor& input : inputs) {
    const std::vector<at::Tensor> pieces = input.split(split_size);
    if (parts.empty()) parts.resize(pieces.size());
    if (pieces.size() != parts.size())
      throw std::invalid_argument(
          fmt::format("PipelineParallel: the inputs are batches of different sizes: {} and {}",
                      inputs.front().size(0), input.size(0)));
    for (std::size_t i = 0; i < pieces.size(); ++i) parts[i].push_back(pieces[i]);
  }
  return parts;
}

std::vector<at::Tensor> put_together(const std::vector<std::vector<at::Tensor>>& parts) {
  std::vector<at::Tensor> whole;
  for (std::size_t i = 0; !parts.empty() && i < parts.front().size(); ++i) {
    std::vector<at::Tensor> pieces;
    pieces.reserve(parts.size());
    for (const auto& part : parts) pieces.push_back(part.at(i));
    whole.push_back(at::cat(pieces));
  }
  return whole;
}

}  // namespace

DeviceStage::DeviceStage(ModulePointer module, detail::StageForward forward, const c10::Device& device)
    : module_(std::move(module)), forward_(std::move(forward)), device_(device) {
  if (module_ == nullptr) throw std::invalid_argument("DeviceStage: the module is null");
  module_->to(device_);
}

std::vector<at::Tensor> DeviceStage::bring(std::vector<at::Tensor> tensors) const {
  // A copy to the host must block. Otherwise the program could read the copy before it is complete.
  for (at::Tensor& tensor : tensors) tensor = tensor.to(device_, /*non_blocking=*/device_.is_cuda());
  return tensors;
}

ModelParallel::ModelParallel(std::vector<DeviceStage> stages) : stages_(std::move(stages)) {
  if (stages_.empty()) throw std::invalid_argument("ModelParallel: the list of stages is empty");
  std::vector<ModulePointer> parts;
  for (const DeviceStage& stage : stages_) parts.push_back(stage.module());
  unite(parts, "", *this);
}

std::vector<at::Tensor> ModelParallel::forward(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> tensors = inputs;
  for (const DeviceStage& stage : stages_) tensors = stage.forward(std::move(tensors));
  return tensors;
}

at::Tensor ModelParallel::forward(const at::Tensor& input) {
  std::vector<at::Tensor> outputs = forward(std::vector<at::Tensor>{input});
  if (outputs.size() != 1)
    throw std::invalid_argument(
        fmt::format("ModelParallel: the last stage returns {} tensors; it must return one", outputs.size()));
  return std::move(outputs.front());
}

// Module::train() reaches only registered modules. unite() can have registered a stage's children without the
// stage itself, so this function calls train() of each stage, too.
void ModelParallel::train(bool on) {
  Module::train(on);
  for (const DeviceStage& stage : stages_) stage.module()->train(on);
}

PipelineParallel::PipelineParallel(std::vector<DeviceStage> stages, std::int64_t split_size)
    : ModelParallel(std::move(stages)), split_size_(split_size) {
  if (split_size < 1)
    throw std::invalid_argument(
        fmt::format("PipelineParallel: split_size is {}; it must be at least 1", split_size));
}

std::vector<at::Tensor> PipelineParallel::forward(const std::vector<at::Tensor>& inputs) {
  std::vector<std::vector<at::Tensor>> parts = cut(inputs, split_size_);
  const std::size_t count = stages().size();
  // A copy between GPUs waits for all earlier work of both GPUs. So each output is copied to the next GPU
  // before the GPU that computed it gets its next part. In each turn, the earlier stages compute first, so
  // that they stay ahead of the later ones.
  for (std::size_t turn = 0; turn + 1 < parts.size() + count; ++turn) {
    for (std::size_t stage = 0; stage < count && stage <= turn; ++stage) {
      const std::size_t part = turn - stage;
      if (part >= parts.size()) continue;
      parts[part] = stages()[stage].forward(std::move(parts[part]));
      if (stage + 1 < count) parts[part] = stages()[stage + 1].bring(std::move(parts[part]));
    }
  }
  return put_together(parts);
}

}  // namespace muster
