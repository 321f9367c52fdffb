// Hides the differences between the versions of LibTorch that Muster compiles with, 2.9 to 2.15.
//
// All other files are written for the newest version. Where an older version lacks something, they use the
// names of this header. No other file checks the version. Each comment names the version that brought the
// difference.
#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/version.h>
#include <utility>
#include <vector>

#define MUSTER_TORCH_IS_AT_LEAST(minor) \
  (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= (minor)))

namespace muster::compat {

using Splits = std::vector<std::int64_t>;
using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// The version of torch's headers, in the format that loaded_torch.h describes.
inline constexpr std::uint64_t kTorchVersion = TORCH_ABI_VERSION;

// Since LibTorch 2.10, a store can list its keys. Before 2.10, this function returns an empty list.
template <class Store>
std::vector<std::string> list_keys([[maybe_unused]] Store& store) {
#if MUSTER_TORCH_IS_AT_LEAST(10)
  return store.listKeys();
#else
  return {};
#endif
}

// Since LibTorch 2.11, torch records the newest 2000 collectives. Before 2.11, it records none unless an
// environment variable says how many. This function sets that variable. Call it before the first group is
// made.
inline void record_collectives() {
#if !MUSTER_TORCH_IS_AT_LEAST(11)
  if (std::getenv("TORCH_NCCL_TRACE_BUFFER_SIZE") == nullptr) setenv("TORCH_FR_BUFFER_SIZE", "2000", 0);
#endif
}

// Since LibTorch 2.13, c10::intrusive_ptr holds autograd's nodes. It runs Node::release_resources() before it
// frees a node, so that a long graph is freed without recursion. Before 2.13, shared_ptr holds the nodes, and
// needs the deleter deleteNode() for the same effect.
#if MUSTER_TORCH_IS_AT_LEAST(13)
template <class Node>
using NodePtr = c10::intrusive_ptr<Node>;
using WeakNodePtr = c10::weak_intrusive_ptr<torch::autograd::Node>;
template <class Node, class... Arguments>
NodePtr<Node> make_node(Arguments&&... arguments) {
  return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
}
#else
template <class Node>
using NodePtr = std::shared_ptr<Node>;
using WeakNodePtr = std::weak_ptr<torch::autograd::Node>;
template <class Node, class... Arguments>
NodePtr<Node> make_node(Arguments&&... arguments) {
  return NodePtr<Node>(new Node(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode);
}
#endif

// Before LibTorch 2.11, if autocast caches a copy of a weight while GradMode is off, the copy has no graph.
// If a later forward that needs gradients uses this copy, the weight gets no gradient. While an object of
// this class lives, autocast caches nothing if GradMode was off when the object was made.
class CastsWithGraph {
 public:
  CastsWithGraph() {
    if (!MUSTER_TORCH_IS_AT_LEAST(11) && !c10::GradMode::is_enabled())
      at::autocast::set_autocast_cache_enabled(false);
  }
  CastsWithGraph(const CastsWithGraph&) = delete;
  CastsWithGraph& operator=(const CastsWithGraph&) = delete;
  ~CastsWithGraph() { at::autocast::set_autocast_cache_enabled(kept_); }

 private:
  bool kept_ = at::autocast::is_autocast_cache_enabled();
};

// Since LibTorch 2.11, the Reducer's constructor has a list of bucket caps after its two flags from Python.
// LibTorch 2.12 adds a third flag with a default. The arguments before the flags are the same in all
// versions.
template <class Reducer, class... Common>
std::shared_ptr<Reducer> make_reducer(Common&&... common) {
#if MUSTER_TORCH_IS_AT_LEAST(11)
  return std::make_shared<Reducer>(std::forward<Common>(common)..., false, false,
                                   std::vector<std::int64_t>());
#else
  return std::make_shared<Reducer>(std::forward<Common>(common)..., false, false);
#endif
}

// Since LibTorch 2.11, a backend's options have a description of the group. Before 2.11, only
// ProcessGroup::setGroupDesc() takes a description.
inline void describe_group([[maybe_unused]] c10d::Backend::Options& options,
                           [[maybe_unused]] const std::string& description) {
#if MUSTER_TORCH_IS_AT_LEAST(11)
  options.group_desc = description;
#endif
}

// In LibTorch 2.13, ProcessGroup renames these collectives to the names below, and deprecates the old names.
// In 2.14, Backend renames them, too. `Group` is ProcessGroup or Backend.
template <class Group>
auto all_gather_single(Group& group, at::Tensor& output, at::Tensor& input,
                       const c10d::AllgatherOptions& options = {}) {
  if constexpr (requires { group.all_gather_single(output, input, options); })
    return group.all_gather_single(output, input, options);
  else
    return group._allgather_base(output, input, options);
}
template <class Group>
auto all_gather_single_coalesced(Group& group, Tensors& outputs, Tensors& inputs,
                                 const c10d::AllgatherOptions& options = {}) {
  if constexpr (requires { group.all_gather_single_coalesced(outputs, inputs, options); })
    return group.all_gather_single_coalesced(outputs, inputs, options);
  else
    return group.allgather_into_tensor_coalesced(outputs, inputs, options);
}
template <class Group>
auto reduce_scatter_single(Group& group, at::Tensor& output, at::Tensor& input,
                           const c10d::ReduceScatterOptions& options = {}) {
  if constexpr (requires { group.reduce_scatter_single(output, input, options); })
    return group.reduce_scatter_single(output, input, options);
  else
    return group._reduce_scatter_base(output, input, options);
}
template <class Group>
auto reduce_scatter_single_coalesced(Group& group, Tensors& outputs, Tensors& inputs,
                                     const c10d::ReduceScatterOptions& options = {}) {
  if constexpr (requires { group.reduce_scatter_single_coalesced(outputs, inputs, options); })
    return group.reduce_scatter_single_coalesced(outputs, inputs, options);
  else
    return group.reduce_scatter_tensor_coalesced(outputs, inputs, options);
}
template <class Group>
auto all_to_all_single(Group& group, at::Tensor& output, at::Tensor& input, Splits& output_splits,
                       Splits& input_splits, const c10d::AllToAllOptions& options = {}) {
  if constexpr (requires { group.all_to_all_single(output, input, output_splits, input_splits, options); })
    return group.all_to_all_single(output, input, output_splits, input_splits, options);
  else
    return group.alltoall_base(output, input, output_splits, input_splits, options);
}

// Returns the argument `outputs` with which gather() gathers into one tensor. It is empty except on the root.
inline std::vector<Tensors> parts_of_gathered(const at::Tensor& output, bool is_root, int size) {
  std::vector<Tensors> outputs;
  if (is_root) outputs.push_back(output.view({-1}).chunk(size));
  return outputs;
}
// Since LibTorch 2.14, there is a gather_single(), which gathers into one tensor on the root. Other ranks do
// not use `output`.
template <class Group>
auto gather_single(Group& group, at::Tensor& output, at::Tensor& input,
                   const c10d::GatherOptions& options = {}) {
  if constexpr (requires { group.gather_single(output, input, options); }) {
    return group.gather_single(output, input, options);
  } else {
    auto outputs = parts_of_gathered(output, group.getRank() == options.rootRank, group.getSize());
    Tensors inputs{input};
    return group.gather(outputs, inputs, options);
  }
}

// The base class of Muster's backends. They override the collectives under the names that LibTorch 2.14 has
// introduced. If a caller uses an old name, the function of that name calls the function with the new name.
// In 2.14, c10d::Backend has these functions with the old names. For older versions, this class has them.
class Backend : public c10d::Backend {
 public:
  using c10d::Backend::Backend;

#if !MUSTER_TORCH_IS_AT_LEAST(14)
  virtual WorkPtr all_gather_single(at::Tensor& output, at::Tensor& input,
                                    const c10d::AllgatherOptions& options) = 0;
  virtual WorkPtr all_gather_single_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
    return c10d::Backend::allgather_into_tensor_coalesced(outputs, inputs, options);
  }
  virtual WorkPtr reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                        const c10d::ReduceScatterOptions& options) = 0;
  virtual WorkPtr reduce_scatter_single_coalesced(Tensors& outputs, Tensors& inputs,
                                                  const c10d::ReduceScatterOptions& options) {
    return c10d::Backend::reduce_scatter_tensor_coalesced(outputs, inputs, options);
  }
  virtual WorkPtr all_to_all_single(at::Tensor& output, at::Tensor& input, Splits& output_splits,
                                    Splits& input_splits, const c10d::AllToAllOptions& options) = 0;
  virtual WorkPtr gather_single(at::Tensor& output, at::Tensor& input,
                                const c10d::GatherOptions& options) = 0;

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) final {
    return all_gather_single(output, input, options);
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) final {
    return all_gather_single_coalesced(outputs, inputs, options);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) final {
    return reduce_scatter_single(output, input, options);
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) final {
    return reduce_scatter_single_coalesced(outputs, inputs, options);
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, Splits& output_splits, Splits& input_splits,
                        const c10d::AllToAllOptions& options) final {
    return all_to_all_single(output, input, output_splits, input_splits, options);
  }
#endif
};

// The base class of backend options that add fields. The derived class overrides clone(). Since LibTorch
// 2.14, ProcessGroup calls clone() before it splits off a group. If the copy has another type than the
// options, the new group shares the options of the old group instead.
template <class Base>
class Options : public Base {
 public:
  using Base::Base;
#if !MUSTER_TORCH_IS_AT_LEAST(14)
  virtual c10::intrusive_ptr<c10d::Backend::Options> clone() const = 0;
#endif
};

}  // namespace muster::compat

#undef MUSTER_TORCH_IS_AT_LEAST
