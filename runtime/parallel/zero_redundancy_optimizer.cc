#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <muster/comm/collectives.h>
#include <muster/parallel/zero_redundancy_optimizer.h>
#include <stdexcept>
#include <torch/torch.h>

namespace muster {
namespace {

namespace optim = torch::optim;

// Returns the owner of each parameter, as a rank in the group. Starts with the largest parameter, and gives
// each parameter to the rank that owns the fewest values so far.
std::map<const void*, int> owners_of(const std::vector<optim::OptimizerParamGroup>& groups, int members) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : groups)
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  std::ranges::stable_sort(parameters, std::greater(), &at::Tensor::numel);
  std::vector<std::int64_t> loads(static_cast<std::size_t>(members));
  std::map<const void*, int> owners;
  for (const at::Tensor& parameter : parameters) {
    const auto least = std::ranges::min_element(loads);
    if (!owners.emplace(parameter.unsafeGetTensorImpl(), static_cast<int>(least - loads.begin())).second)
      throw std::invalid_argument("ZeroRedundancyOptimizer: a parameter is listed twice");
    *least += parameter.numel();
  }
  return owners;
}

// Calls use() with runs of consecutive parameters that have the same device and type. The values of a run are
// sent in one message.
template <class Use>
void for_each_run(const std::vector<at::Tensor>& parameters, const Use& use) {
  constexpr std::int64_t kMostBytes = std::int64_t{32} << 20;
  for (std::size_t begin = 0; begin < parameters.size();) {
    std::size_t end = begin;
    std::int64_t bytes = 0;
    for (; end < parameters.size() && parameters[end].options().type_equal(parameters[begin].options()) &&
           parameters[end].device() == parameters[begin].device() && (end == begin || bytes < kMostBytes);
         ++end)
      bytes += static_cast<std::int64_t>(parameters[end].nbytes());
    use(std::vector(parameters.begin() + static_cast<std::ptrdiff_t>(begin),
                    parameters.begin() + static_cast<std::ptrdiff_t>(end)));
    begin = end;
  }
}

}  // namespace

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(std::vector<at::Tensor> parameters, const Make& make,
                                                 Group group)
    : ZeroRedundancyOptimizer({optim::OptimizerParamGroup(std::move(parameters))}, make, std::move(group)) {}

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(const std::vector<optim::OptimizerParamGroup>& groups,
                                                 const Make& make, Group group)
    : Optimizer(std::vector<optim::OptimizerParamGroup>(), nullptr),
      group_(std::move(group)),
      shares_(static_cast<std::size_t>(group_.size())) {
  const auto owners = owners_of(groups, group_.size());
  std::vector<optim::OptimizerParamGroup> mine;
  for (const auto& each : groups) {
    std::vector<at::Tensor> of_group;
    for (const at::Tensor& parameter : each.params()) {
      const int owner = owners.at(parameter.unsafeGetTensorImpl());
      shares_[static_cast<std::size_t>(owner)].push_back(parameter);
      if (owner == group_.rank()) of_group.push_back(parameter);
    }
    mine.emplace_back(std::move(of_group), each.has_options() ? each.options().clone() : nullptr);
  }
  local_ = make(mine);
  if (!local_ || local_->param_groups().size() != groups.size())
    throw std::invalid_argument(
        "ZeroRedundancyOptimizer: `make` must pass all groups that it gets to its optimizer");
  if (dynamic_cast<const optim::LBFGS*>(local_.get()) != nullptr)
    throw std::invalid_argument(
        "ZeroRedundancyOptimizer: LBFGS steps all parameters together, which ranks cannot share out");
  defaults_ = local_->defaults().clone();
  for (std::size_t i = 0; i < groups.size(); ++i)
    param_groups_.emplace_back(groups[i].params(), local_->param_groups()[i].options().clone());
}

void ZeroRedundancyOptimizer::give_options() {
  if (param_groups_.size() != local_->param_groups().size())
    throw std::logic_error(
        fmt::format("ZeroRedundancyOptimizer: there are {} groups of parameters now; it was made with {}",
                    param_groups_.size(), local_->param_groups().size()));
  for (std::size_t i = 0; i < param_groups_.size(); ++i)
    local_->param_groups()[i].set_options(param_groups_[i].options().clone());
}
void ZeroRedundancyOptimizer::take_options() {
  for (std::size_t i = 0; i < param_groups_.size(); ++i)
    param_groups_[i].set_options(local_->param_groups()[i].options().clone());
}

at::Tensor ZeroRedundancyOptimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode enable_grad(true);
    loss = closure();
  }
  const at::NoGradGuard no_grad;
  give_options();
  local_->step();
  for (int place = 0; place < group_.size(); ++place) {
    for_each_run(shares_[static_cast<std::size_t>(place)], [&](const std::vector<at::Tensor>& run) {
      std::vector<at::Tensor> rows;
      for (const at::Tensor& parameter : run) rows.push_back(parameter.reshape({-1}));
      const at::Tensor flat = rows.size() == 1 ? rows[0].contiguous() : at::cat(rows);
      broadcast(group_, flat, group_.ranks()[static_cast<std::size_t>(place)]);
      if (place == group_.rank()) return;
      std::int64_t begin = 0;
      for (const at::Tensor& parameter : run) {
        parameter.copy_(flat.narrow(0, begin, parameter.numel()).view(parameter.sizes()));
        begin += parameter.numel();
      }
    });
  }
  return loss;
}

}  // namespace muster
