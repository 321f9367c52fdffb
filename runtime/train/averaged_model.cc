#include <fmt/format.h>
#include <map>
#include <muster/checkpoint/state_part.h>
#include <muster/comm/collectives.h>
#include <muster/train/averaged_model.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/model/batch_norm_layer.h"

namespace muster {
namespace {

using Named = torch::OrderedDict<std::string, at::Tensor>;

void check_same(const char* what, const Named& model, const Named& average) {
  const auto names = average.keys();
  if (model.keys() != names)
    throw std::invalid_argument(
        fmt::format("AveragedModel: the average and the model have different {}", what));
  for (const std::string& name : names)
    if (model[name].sizes() != average[name].sizes() ||
        model[name].scalar_type() != average[name].scalar_type())
      throw std::invalid_argument(
          fmt::format("AveragedModel: '{}' is {} {} in the average, and {} {} in the model", name,
                      c10::toString(average[name].scalar_type()), c10::str(average[name].sizes()),
                      c10::toString(model[name].scalar_type()), c10::str(model[name].sizes())));
}

void copy_all(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

struct AveragedLists {
  std::vector<at::Tensor> averages, values;
};

// Changes each average: `share` of the new average is the value, and `1 - share` is the old average.
// Integers, such as counts of batches, are only copied.
void move_by(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values, double share) {
  std::map<std::pair<std::string, at::ScalarType>, AveragedLists> all;
  for (std::size_t i = 0; i < averages.size(); ++i) {
    if (!averages[i].is_floating_point()) {
      averages[i].copy_(values[i]);
      continue;
    }
    AveragedLists& lists = all[{averages[i].device().str(), averages[i].scalar_type()}];
    lists.averages.push_back(averages[i]);
    lists.values.push_back(values[i].detach().to(averages[i].device()));
  }
  for (auto& [kind, lists] : all) at::_foreach_lerp_(lists.averages, lists.values, share);
}

std::vector<at::Tensor> detached(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& each : tensors) all.push_back(each.detach());
  return all;
}

// Calls use() once for each BatchNorm layer, with a reference of the layer's own type.
template <class Use>
void for_each_batch_norm(torch::nn::Module& module, const Use& use) {
  module.apply([&](torch::nn::Module& each) { with_batch_norm(each, use); });
}

// Averages the statistics of all ranks. A rank's weight in the average is its number of batches.
template <class Layer>
void average_statistics(const Group& group, Layer& layer) {
  if (!layer.running_mean.defined()) return;
  const at::Tensor count = layer.num_batches_tracked.to(at::kDouble).view({1});
  const at::Tensor mine = at::cat({layer.running_mean.to(at::kDouble), layer.running_var.to(at::kDouble)});
  const at::Tensor sums = at::cat({mine * count, count});
  all_reduce(group, sums);
  const std::int64_t features = layer.running_mean.numel();
  const at::Tensor of_all = sums.narrow(0, 2 * features, 1);
  // If the layer is synchronized, its count is not changed: each rank has already counted the batches of all
  // ranks.
  if (!detail::is_synchronized(layer.running_mean)) layer.num_batches_tracked.copy_(of_all.squeeze(0));
  if (of_all.item<double>() == 0) return;
  layer.running_mean.copy_(sums.narrow(0, 0, features) / of_all);
  layer.running_var.copy_(sums.narrow(0, features, features) / of_all);
}

}  // namespace

AveragedModel::AveragedModel(torch::nn::Module& model, torch::nn::Module& average,
                             const AveragedModelOptions& options, int)
    : model_(model), average_(average), options_(options) {
  if (options_.decay && !(*options_.decay >= 0 && *options_.decay <= 1))
    throw std::invalid_argument(
        fmt::format("AveragedModel: decay is {}; it must be between 0 and 1", *options_.decay));
  if (&model == &average)
    throw std::invalid_argument(
        "AveragedModel: the average is the model itself; it must be a second module of the same architecture");
  check_same("parameters", model.named_parameters(), average.named_parameters());
  check_same("buffers", model.named_buffers(), average.named_buffers());
}

void AveragedModel::update_parameters() {
  const torch::NoGradGuard no_grad;
  const auto averages = detached(average_.parameters()), values = detached(model_.parameters());
  const auto average_buffers = detached(average_.buffers()), buffers = detached(model_.buffers());
  const double share = options_.decay ? 1 - *options_.decay : 1.0 / static_cast<double>(n_averaged_ + 1);
  if (n_averaged_ == 0) copy_all(averages, values);
  if (n_averaged_ > 0) move_by(averages, values, share);
  if (n_averaged_ > 0 && options_.use_buffers)
    move_by(average_buffers, buffers, share);
  else
    copy_all(average_buffers, buffers);
  ++n_averaged_;
}

void AveragedModel::save(SavedState& to) const {
  to.shared_value("n_averaged", write_number(n_averaged_));
}
void AveragedModel::load(LoadedState& from) {
  n_averaged_ = from.number<std::int64_t>("n_averaged");
}

void detail::update_batch_norm(torch::nn::Module& module, const Group* group,
                               const std::function<void()>& forward_all) {
  const torch::NoGradGuard no_grad;
  std::vector<std::optional<double>> momenta;
  const bool was_training = module.is_training();
  // Gives the module its old settings again. This happens even if forward_all() throws.
  const auto put_back = [&] {
    std::size_t next = 0;
    for_each_batch_norm(module, [&](auto& layer) { layer.options.momentum(momenta[next++]); });
    module.train(was_training);
  };
  for_each_batch_norm(module, [&](auto& layer) {
    momenta.push_back(layer.options.momentum());
    layer.reset_running_stats();
    layer.options.momentum(std::nullopt);  // without a momentum, the statistics are the mean of all batches
  });
  module.train();
  try {
    if (!momenta.empty()) forward_all();
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
  if (group != nullptr && group->size() > 1)
    for_each_batch_norm(module, [&](auto& layer) { average_statistics(*group, layer); });
}

}  // namespace muster
