// What differs between the versions of LibTorch that Muster compiles with, 2.9 to 2.15.
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

// The version that is compiled with, as loaded_torch.h writes versions.
inline constexpr std::uint64_t kTorchVersion = TORCH_ABI_VERSION;

// 2.10: a store lists its keys. Before, none are listed here.
template <class Store>
std::vector<std::string> list_keys([[maybe_unused]] Store& store) {
#if MUSTER_TORCH_IS_AT_LEAST(10)
  return store.listKeys();
#else
  return {};
#endif
}

// 2.11: torch records the newest 2000 collectives. Before, it records as many as a variable says, and none
// without one. Call before the first group is made.
inline void record_collectives() {
#if !MUSTER_TORCH_IS_AT_LEAST(11)
  if (std::getenv("TORCH_NCCL_TRACE_BUFFER_SIZE") == nullptr) setenv("TORCH_FR_BUFFER_SIZE", "2000", 0);
#endif
}

// 2.13: autograd's nodes are held by c10::intrusive_ptr, which runs Node::release_resources() before it frees
// one, so that a long graph ends without recursion. Before that, shared_ptr held them, and deleteNode() had
// to be given as its deleter to do the same.
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

// 2.11: the copies of weights that autocast keeps have a graph, whether one is wanted when they are made or
// not. Before, a copy that is kept from a forward without a graph costs its weight the gradient of a later
// forward with one. While this lives, a thread without a graph keeps no copies there.
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

// 2.11: the Reducer's constructor takes a list of bucket caps. Before and after it stand two flags of
// Python's, and since 2.12 a third one that has a default. The arguments before these are the same in all
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

// 2.11: options of a backend say what its group is for. Before, only ProcessGroup::setGroupDesc() does.
inline void describe_group([[maybe_unused]] c10d::Backend::Options& options,
                           [[maybe_unused]] const std::string& description) {
#if MUSTER_TORCH_IS_AT_LEAST(11)
  options.group_desc = description;
#endif
}

// 2.13: ProcessGroup gives these collectives the names that they have here, and deprecates the old
// ones; 2.14: Backend does so too. `Group` is one of the two.
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

// What gather() takes as its outputs to gather into one tensor.
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

// The base of our backends. They override the collectives of single tensors by their names of 2.14, which
// adds gather_single. From 2.14 on c10d's own base calls these where a caller uses the old names; before,
// this one.
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

// The base of options that a backend adds fields to. 2.14: ProcessGroup clones the options of a group before
// it splits another one off, and falls back to sharing them where clone() gives another type.
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
