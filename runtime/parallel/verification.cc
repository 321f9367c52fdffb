#include "runtime/parallel/verification.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muster/comm/collectives.h>
#include <stdexcept>

#include "common/wire/digest.h"

namespace muster {
namespace {

std::string describe(const at::Tensor& tensor, bool needs_gradient) {
  if (!tensor.defined()) return "undefined";
  std::string text =
      fmt::format("{} [{}] on {}", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "),
                  c10::DeviceTypeName(tensor.device().type(), true));
  if (tensor.layout() != at::kStrided) return text + ", sparse";
  if (!tensor.is_contiguous()) text += fmt::format(" with strides [{}]", fmt::join(tensor.strides(), ", "));
  return needs_gradient ? text : text + ", without a gradient";
}

}  // namespace

ModelDescription describe_model(const torch::nn::Module& module,
                                const DistributedDataParallelOptions& options) {
  ModelDescription all{
      {"option broadcast_buffers", fmt::to_string(options.broadcast_buffers)},
      {"option bucket_cap_mb", options.bucket_cap_mb ? fmt::to_string(*options.bucket_cap_mb) : "not set"},
      {"option find_unused_parameters", fmt::to_string(options.find_unused_parameters)},
      {"option static_graph", fmt::to_string(options.static_graph)},
      {"option comm_hook", fmt::to_string(static_cast<int>(options.comm_hook))}};
  for (const auto& each : module.named_parameters())
    all.emplace_back(fmt::format("parameter '{}'", each.key()),
                     describe(each.value(), each.value().requires_grad()));
  if (!options.broadcast_buffers) return all;
  for (const auto& each : module.named_buffers())
    all.emplace_back(fmt::format("buffer '{}'", each.key()), describe(each.value(), true));
  return all;
}

void require_equal_on_all_ranks(const Group& group, const std::string& what,
                                const ModelDescription& description) {
  const std::string text = to_text(description);
  const std::string mine = xxh3_digest(text);
  if (std::ranges::all_of(all_gather_object(group, mine), [&](const auto& each) { return each == mine; }))
    return;
  std::vector<ModelDescription> members;
  for (const std::string& each : all_gather_object(group, text)) members.push_back(description_from(each));
  throw std::invalid_argument(
      what + " is not the same on all ranks: " +
      first_difference(members, group.ranks()).value_or("it is described in another way"));
}

}  // namespace muster
