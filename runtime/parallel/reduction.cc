#include "runtime/parallel/reduction.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "runtime/torch_versions.h"

namespace muster {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::int64_t>::max();  // Python's sys.maxsize

// Returns the buckets in reverse order, because gradients arrive roughly in the reverse order of definition.
Reduction::Order first_order(const ReducedParameters& parameters, const std::vector<std::size_t>& limits) {
  Reduction::Order order =
      std::get<0>(c10d::compute_bucket_assignment_by_size(parameters.tensors, limits, parameters.sparse));
  std::ranges::reverse(order);
  return order;
}

}  // namespace

Reduction::Reduction(const ReducedParameters& parameters, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                     const DistributedDataParallelOptions& options)
    : parameters_(parameters.tensors),
      group_(group),
      reduces_used_map_(options.find_unused_parameters && !options.static_graph) {
  const auto cap_bytes = static_cast<std::int64_t>(options.bucket_cap_mb.value_or(25) * 1024 * 1024);
  const std::int64_t first_cap_bytes =
      options.bucket_cap_mb ? cap_bytes : std::int64_t{c10d::kDefaultFirstBucketBytes};
  std::vector<std::size_t> limits{kNoLimit};  // at first one bucket, because the order of arrival is unknown
  if (reduces_used_map_) {
    limits = {static_cast<std::size_t>(cap_bytes)};
    if (!options.bucket_cap_mb) limits.insert(limits.begin(), static_cast<std::size_t>(first_cap_bytes));
  }
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < parameters.names.size(); ++i) names.emplace(i, parameters.names[i]);
  reducer_ = compat::make_reducer<c10d::Reducer>(
      parameters.tensors, first_order(parameters, limits), group, parameters.sparse, cap_bytes,
      options.find_unused_parameters, options.gradient_as_bucket_view, std::move(names), first_cap_bytes);
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  if (options.static_graph) reducer_->set_static_graph();
}

void Reduction::rebuild_buckets() {
  // The Reducer rebuilds its buckets once, even if an order is pinned. After that, restores the pinned order.
  if (reducer_->rebuild_buckets() && !pinned_.empty() && current_order() != pinned_)
    reducer_->initialize_buckets(pinned_);
}

void Reduction::pin(const Order& order) {
  pinned_ = order;
  reducer_->initialize_buckets(pinned_);
}

Reduction::Order Reduction::current_order() const {
  std::unordered_map<const c10::TensorImpl*, std::size_t> index;
  for (std::size_t i = 0; i < parameters_.size(); ++i) index.emplace(parameters_[i].unsafeGetTensorImpl(), i);
  Order order;
  for (const auto& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/false)) {
    order.emplace_back();
    for (const auto& parameter : bucket.getParameters())
      order.back().push_back(index.at(parameter.unsafeGetTensorImpl()));
  }
  return order;
}

void Reduction::divide_by(c10::intrusive_ptr<c10d::Work> active) {
  const bool by_world_size = active == nullptr;
  reducer_->set_forward_pass_work_handle(std::move(active), by_world_size);
}

void Reduction::shadow_backward() {
  auto buckets = reducer_->get_grad_buckets();  // full of zeros
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> reduced;
  for (auto& bucket : buckets) reduced.push_back(reducer_->run_comm_hook(bucket));
  for (const auto& future : reduced) future->waitAndThrow();
  if (reduces_used_map_) {
    std::vector<at::Tensor> map{reducer_->get_local_used_map_on_device()};
    group_->allreduce(map)->wait();
  }
  reducer_->push_rebuilt_params_for_all_indices();
}

}  // namespace muster
