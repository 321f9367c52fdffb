#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muster/train/fine_tuning.h>
#include <set>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/train/model_part.h"

namespace muster {
namespace {

std::invalid_argument no_such_part(const torch::nn::Module& module, const std::string& part) {
  std::set<std::string> parts;
  for (const auto& each : module.named_parameters()) parts.insert(each.key().substr(0, each.key().find('.')));
  return std::invalid_argument(
      fmt::format("the model has no part '{}'; its parts are {}", part, fmt::join(parts, ", ")));
}

}  // namespace

int detail::set_requires_grad(torch::nn::Module& module, const std::string& part, bool learns) {
  int count = 0;
  for (auto& each : module.named_parameters()) {
    if (!is_in_part(each.key(), part)) continue;
    ++count;
    each.value().requires_grad_(learns);
    if (!learns) each.value().mutable_grad().reset();
  }
  if (count == 0) throw no_such_part(module, part);
  return count;
}

std::vector<std::vector<at::Tensor>> detail::parts_of(const torch::nn::Module& module,
                                                      const std::vector<std::string>& parts) {
  std::vector<std::vector<at::Tensor>> all(parts.size());
  for (const auto& each : module.named_parameters()) {
    std::size_t longest = parts.size();
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (is_in_part(each.key(), parts[i]) &&
          (longest == parts.size() || parts[i].size() > parts[longest].size()))
        longest = i;
    if (longest == parts.size())
      throw std::invalid_argument(fmt::format(
          "the parameter '{}' belongs to none of the parts; add the part '' for the rest", each.key()));
    all[longest].push_back(each.value());
  }
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (all[i].empty()) throw no_such_part(module, parts[i]);
  return all;
}

}  // namespace muster
