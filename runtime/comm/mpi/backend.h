// A backend of c10d that uses the engine. It passes the tensors of a call to MPI, and returns a Work.
//
// - Every call returns at once. MPI owns the tensors until the Work has ended. The Work ends on the thread
//   that makes the engine's MPI calls at that time (engine.h). Its callbacks run on the same thread.
// - Tensors must be contiguous. Reductions and broadcasts also accept dense tensors whose dimensions have
//   another order in memory. The order must be the same on all ranks.
// - Reductions and broadcasts are divided into pieces of 4 MiB, so that messages can make progress between
//   two pieces. If the pieces are large, an all-reduce consists of messages (direct.h).
// - The bits of a sum depend on the number of ranks, on the size of the tensor, and on the place of the
//   element in it. With two ranks, they depend on none of these.
// - If a call times out, its group is given up. The error names the members that do not wait in the same
//   call.
#pragma once

#include <atomic>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "runtime/comm/mpi/engine.h"
#include "runtime/comm/mpi/library.h"
#include "runtime/comm/mpi/tensors.h"
#include "runtime/torch_versions.h"

namespace muster::mpi {

struct DirectGroup;
using compat::WorkPtr;

class MpiBackend : public compat::Backend {
 public:
  // All members must call it together.
  explicit MpiBackend(const MpiRequest& request);
  MpiBackend(const MpiBackend&) = delete;
  MpiBackend& operator=(const MpiBackend&) = delete;
  ~MpiBackend() override;

  const std::string getBackendName() const override { return "mpi"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return call_count_; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr all_gather_single(at::Tensor& output, at::Tensor& input,
                            const c10d::AllgatherOptions& options) override;
  WorkPtr all_gather_single_coalesced(Tensors& outputs, Tensors& inputs,
                                      const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_single_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr all_to_all_single(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;

 private:
  struct Plan;
  struct Started;
  WorkPtr run(Plan plan);
  WorkPtr gather_all(const Tensors& outputs, const Tensors& inputs, Plan plan);
  WorkPtr reduce_parts(const Tensors& outputs, const Tensors& inputs, const c10d::ReduceOp& op, Plan plan);
  WorkPtr message(at::Tensor& tensor, int peer, int tag, bool sends);

  const std::vector<int> ranks_;
  const std::string prefix_;
  c10::intrusive_ptr<Options> options_;
  std::shared_ptr<Channel> channel_;
  std::shared_ptr<DirectGroup> direct_;
  c10::intrusive_ptr<c10d::Store> store_;  // for the Asker (asker.h)
  std::atomic<std::uint64_t> call_count_ = 0;
  std::atomic<bool> failed_ = false;
  std::atomic<bool> closed_ = false;
};

}  // namespace muster::mpi
