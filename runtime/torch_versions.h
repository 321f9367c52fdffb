// Hides the differences between the versions of LibTorch that Muster compiles with, 2.9 to 2.15.
//
// All other files are written for the newest version, with the names of this header where an older one lacks
// something; no other file asks for a version. Each difference says which version brought it.
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

// The version whose headers are compiled, in the format that loaded_torch.h describes.
inline constexpr std::uint64_t kTorchVersion = TORCH_ABI_VERSION;

// 2.10: a store can list its keys. Before 2.10 this returns an empty list.
template <class Store>
std::vector<std::string> list_keys([[maybe_unused]] Store& store) {
#if MUSTER_TORCH_IS_AT_LEAST(10)
  return store.listKeys();
#else
  return {};
#endif
}

// 2.11: torch keeps a record of the newest 2000 collectives. Before 2.11 it records none unless a variable
// says how many; this function sets the variable. Call it before the first group is made.
inline void record_collectives() {
#if !MUSTER_TORCH_IS_AT_LEAST(11)
  if (std::getenv("TORCH_NCCL_TRACE_BUFFER_SIZE") == nullptr) setenv("TORCH_FR_BUFFER_SIZE", "2000", 0);
#endif
}

// 2.13: autograd's nodes are held by c10::intrusive_ptr, which runs Node::release_resources() before it frees
// one, so that a long graph ends without recursion. Before 2.13 shared_ptr holds them, and needs deleteNode()
// as its deleter to do the same.
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

// 2.11: autocast makes the weights' copies that it caches with a graph, even while GradMode is off.
// Before 2.11 a copy that it cached while GradMode was off has no graph; a later forward that needs gradients
// uses this copy, and the weight gets none. While an object of this class lives, autocast caches nothing if
// GradMode was off when the object was made.
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

// The last arguments of the Reducer's constructor are two flags of Python's. 2.11 adds a list of bucket caps
// after them, and 2.12 a third flag, which has a default. The arguments before these are the same in all
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

// 2.11: a backend's options have a description of the group. Before, only ProcessGroup::setGroupDesc() has
// it.
inline void describe_group([[maybe_unused]] c10d::Backend::Options& options,
                           [[maybe_unused]] const std::string& description) {
#if MUSTER_TORCH_IS_AT_LEAST(11)
  options.group_desc = description;
#endif
}

// 2.13: ProcessGroup renames these collectives to the names below, and deprecates the old ones. 2.14: Backend
// renames them too. `Group` is one of the two classes.
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

// The argument `outputs` with which gather() gathers into one tensor: empty on all ranks but the root.
inline std::vector<Tensors> parts_of_gathered(const at::Tensor& output, bool is_root, int size) {
  std::vector<Tensors> outputs;
  if (is_root) outputs.push_back(output.view({-1}).chunk(size));
  return outputs;
}
// 2.14 adds gather_single(), which gathers into one tensor of the root; other ranks' `output` is not used.
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

// The base class of our backends, which override the collectives under their names of 2.14. When a caller
// uses an old name, c10d::Backend calls the new one from 2.14 on; before 2.14 this class does.
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

// The base class of a backend's options that have fields of their own; such a class overrides clone(). 2.14:
// ProcessGroup clones a group's options before it splits another group off, and shares them where clone()
// gives another type.
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
