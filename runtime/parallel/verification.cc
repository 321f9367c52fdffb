#include "runtime/parallel/verification.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <stdexcept>

#include "common/wire/digest.h"
#include "runtime/parallel/all_gather.h"

namespace muster {
namespace {

constexpr std::size_t kDigestLength = 32;

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

void require_equal_on_all_ranks(const Job& job, const ModelDescription& description) {
  const std::string text = to_text(description);
  const std::string mine = fmt::format("{}{:020}", xxh3_digest(text), text.size());
  const auto summaries = all_gathered(job, mine, mine.size());
  if (std::ranges::all_of(summaries, [&](const std::string& each) { return each == mine; })) return;
  std::vector<std::size_t> lengths;
  for (const auto& each : summaries)
    lengths.push_back(std::strtoull(each.c_str() + kDigestLength, nullptr, 10));
  const auto texts = all_gathered(job, text, std::ranges::max(lengths));
  std::vector<ModelDescription> ranks;
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    ranks.push_back(description_from(std::string_view(texts[rank]).substr(0, lengths[rank])));
  throw std::invalid_argument("DistributedDataParallel: the model is not the same on all ranks: " +
                              first_difference(ranks).value_or("it is described in another way"));
}

}  // namespace muster
