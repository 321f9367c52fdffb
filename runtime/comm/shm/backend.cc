#include "runtime/comm/shm/backend.h"

#include <ATen/core/jit_type.h>
#include <fmt/format.h>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <torch/csrc/autograd/grad_mode.h>

#include "runtime/comm/shm/member.h"
#include "runtime/torch_versions.h"

namespace muster {
namespace {

using c10::ivalue::Future;
using shm::CallTag;
using shm::Kind;

constexpr auto kTimedOut = "Operation timed out!";  // the text of torch's own Work

std::exception_ptr as_exception(const std::string& error) {
  return std::make_exception_ptr(std::runtime_error("shm: " + error));
}

// Has what torch needs in addition to a request: the tensors, which must live as long as the request, and a
// future.
class OfTensors {
 public:
  explicit OfTensors(std::vector<at::Tensor> tensors, std::vector<at::Tensor> results)
      : tensors_(std::move(tensors)), results_(std::move(results)) {}
  const std::vector<at::Tensor>& results() const { return results_; }

  c10::intrusive_ptr<Future> future() {
    const std::lock_guard lock(mutex_);
    if (future_ != nullptr) return future_;
    future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
    if (over_) complete();
    return future_;
  }

 protected:
  void end(const std::string& error) {
    c10::intrusive_ptr<Future> told;
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      error_ = error;
      told = future_;
    }
    if (told != nullptr) complete();
  }

 private:
  // Completes the future. Its callbacks run in this function. Call it only after the request has ended,
  // because its error then no longer changes.
  void complete() {
    if (error_.empty())
      future_->markCompleted(c10::IValue(results_));
    else
      future_->setError(as_exception(error_));
  }

  const std::vector<at::Tensor> tensors_, results_;
  std::mutex mutex_;
  bool over_ = false;
  std::string error_;
  c10::intrusive_ptr<Future> future_;
};

template <class Base>
struct TensorRequest : Base, OfTensors {
  using OfTensors::OfTensors;
  void on_end() override { end(this->error()); }
};
using TensorCollective = TensorRequest<shm::Collective>;
using TensorMessage = TensorRequest<shm::Message>;

class ShmWork : public c10d::Work {
 public:
  ShmWork(std::shared_ptr<shm::Member> member, int rank, c10d::OpType type,
          std::shared_ptr<shm::Request> request, OfTensors& tensors, std::uint64_t number)
      : Work(rank, type),
        member_(std::move(member)),
        request_(std::move(request)),
        tensors_(tensors),
        number_(number) {}

  bool isCompleted() override { return member_->test(*request_); }
  bool isSuccess() const override { return request_->ended() && request_->error().empty(); }
  std::exception_ptr exception() const override {
    return request_->ended() && !request_->error().empty() ? as_exception(request_->error()) : nullptr;
  }
  int sourceRank() const override {
    const auto* const message = dynamic_cast<const shm::Message*>(request_.get());
    TORCH_CHECK(message != nullptr && !message->sends, "only a receive has a sourceRank()");
    return message->source;
  }
  std::vector<at::Tensor> result() override { return tensors_.results(); }
  bool wait(std::chrono::milliseconds timeout) override {
    const TimePoint until = timeout == kNoTimeout ? TimePoint::max() : Clock::now() + timeout;
    if (!member_->wait(*request_, until)) TORCH_CHECK(false, kTimedOut);
    if (!request_->error().empty()) std::rethrow_exception(exception());
    return true;
  }
  void abort() override { member_->give_up("aborted"); }
  c10::intrusive_ptr<Future> getFuture() override {
    member_->hurry(*request_);
    return tensors_.future();
  }
  std::uint64_t getSequencenumber() const override { return number_; }

 private:
  const std::shared_ptr<shm::Member> member_;
  const std::shared_ptr<shm::Request> request_;
  OfTensors& tensors_;  // a part of `request_`
  const std::uint64_t number_;
};

shm::Type type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return shm::Type::kFloat;
    case at::kDouble: return shm::Type::kDouble;
    case at::kHalf: return shm::Type::kHalf;
    case at::kBFloat16: return shm::Type::kBFloat16;
    case at::kChar: return shm::Type::kInt8;
    case at::kByte: return shm::Type::kUInt8;
    case at::kBool: return shm::Type::kBool;
    case at::kInt: return shm::Type::kInt32;
    case at::kLong: return shm::Type::kInt64;
    default: TORCH_CHECK(false, "shm does not reduce ", c10::toString(tensor.scalar_type()));
  }
}

shm::Reduction reduction_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM: return shm::Reduction::kSum;
    case c10d::ReduceOp::AVG: return shm::Reduction::kAverage;
    case c10d::ReduceOp::PRODUCT: return shm::Reduction::kProduct;
    case c10d::ReduceOp::MIN: return shm::Reduction::kMin;
    case c10d::ReduceOp::MAX: return shm::Reduction::kMax;
    case c10d::ReduceOp::BAND: return shm::Reduction::kAnd;
    case c10d::ReduceOp::BOR: return shm::Reduction::kOr;
    case c10d::ReduceOp::BXOR: return shm::Reduction::kXor;
    default: TORCH_CHECK(false, "shm does not reduce by this operation");
  }
}

void check_tensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided,
              "shm takes dense tensors on the CPU");
  TORCH_CHECK(tensor.is_contiguous(), "shm takes contiguous tensors");
}

// A call takes a list with exactly one tensor. Returns this tensor. For an in-place call, the tensor must be
// dense, but its dimensions can have any order in memory. For other calls, it must be contiguous.
at::Tensor& only(std::vector<at::Tensor>& tensors, bool in_place) {
  TORCH_CHECK(tensors.size() == 1, "shm takes one tensor per call, not ", tensors.size());
  const bool packed = in_place && tensors[0].defined() && tensors[0].layout() == at::kStrided &&
                      tensors[0].device().is_cpu() && tensors[0].is_non_overlapping_and_dense();
  if (!packed) check_tensor(tensors[0]);
  return tensors[0];
}

std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.numel() == 0 ? nullptr : tensor.mutable_data_ptr());
}

std::vector<at::Tensor> joined(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& more) {
  std::vector<at::Tensor> all = some;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Sums sparse tensors: all ranks exchange their entries, and add them in the order of the ranks.
class SparseSum {
 public:
  explicit SparseSum(const at::Tensor& tensor) : tensor_(tensor), own_(tensor.coalesce()) {}
  at::Tensor count() const { return at::full({1}, own_._nnz(), at::kLong); }
  // All ranks need results of the same size. `most` is the largest number of entries that a rank has.
  // indices() and values() append zeros until there are `most` rows.
  at::Tensor indices(std::int64_t most) const { return padded(own_._indices().t(), most); }
  at::Tensor values(std::int64_t most) const { return padded(own_._values(), most); }
  void add_up(const at::Tensor& counts, const at::Tensor& indices, const at::Tensor& values) const {
    const torch::NoGradGuard no_grad;
    at::Tensor sum;
    for (std::int64_t rank = 0; rank < counts.numel(); ++rank) {
      const auto count = counts[rank].item<std::int64_t>();
      const at::Tensor one = at::sparse_coo_tensor(indices[rank].narrow(0, 0, count).t(),
                                                   values[rank].narrow(0, 0, count), tensor_.sizes());
      sum = rank == 0 ? one : sum + one;
    }
    tensor_.copy_(sum.coalesce());
  }

 private:
  static at::Tensor padded(const at::Tensor& rows, std::int64_t most) {
    const torch::NoGradGuard no_grad;
    std::vector<std::int64_t> sizes = rows.sizes().vec();
    sizes[0] = most;
    at::Tensor all = at::zeros(sizes, rows.options());
    all.narrow(0, 0, rows.size(0)).copy_(rows);
    return all;
  }

  const at::Tensor tensor_, own_;
};

// Returns a tensor that has room for the tensors of all ranks. Its first dimension is the number of ranks.
// Its other dimensions are those of `tensor`.
at::Tensor for_all(const at::Tensor& tensor, int ranks) {
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes.insert(sizes.begin(), ranks);
  return at::empty(sizes, tensor.options());
}
shm::Steps gathering(shm::Board& board, const at::Tensor& one, const at::Tensor& all) {
  std::vector<std::byte*> places;
  for (int rank = 0; rank < board.ranks; ++rank)
    places.push_back(one.numel() == 0 ? nullptr
                                      : data_of(all) + static_cast<std::size_t>(rank) * one.nbytes());
  return shm::all_gather(board, {.count = one.nbytes(), .kind = static_cast<std::uint8_t>(Kind::kAllGather)},
                         data_of(one), std::move(places));
}

shm::Steps all_reduce_sparse(shm::Board& board, SparseSum sum) {
  const at::Tensor count = sum.count(), counts = for_all(count, board.ranks);
  shm::Steps steps = gathering(board, count, counts);
  while (!steps.go_on()) co_await *steps.waits_for();
  const auto most = counts.max().item<std::int64_t>();
  const at::Tensor indices = sum.indices(most), all_indices = for_all(indices, board.ranks);
  steps = gathering(board, indices, all_indices);
  while (!steps.go_on()) co_await *steps.waits_for();
  const at::Tensor values = sum.values(most), all_values = for_all(values, board.ranks);
  steps = gathering(board, values, all_values);
  while (!steps.go_on()) co_await *steps.waits_for();
  sum.add_up(counts.flatten(), all_indices, all_values);
}

class ShmBackend : public compat::Backend {
 public:
  ShmBackend(std::shared_ptr<shm::Member> member, int rank, int size, std::chrono::milliseconds timeout)
      : Backend(rank, size),
        member_(std::move(member)),
        options_(c10::make_intrusive<Options>("shm", timeout)) {}
  ~ShmBackend() override { member_->leave(); }

  const std::string getBackendName() const override { return "shm"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return number_; }
  void abort() override { member_->give_up("aborted"); }
  void shutdown() override { member_->leave(); }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    if (tensors.size() == 1 && tensors[0].layout() == at::kSparse) return sum_sparse(tensors[0], options);
    return reduce_to(only(tensors, true), Kind::kAllReduce, options.reduceOp, 0, c10d::OpType::ALLREDUCE,
                     options);
  }
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors,
                                        const c10d::ReduceOptions& options) override {
    return reduce_to(only(tensors, true), Kind::kReduce, options.reduceOp, root_of(options),
                     c10d::OpType::REDUCE, options);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    at::Tensor& tensor = only(tensors, true);
    auto call = make(Kind::kBroadcast, tensor.nbytes(), {tensor}, {tensor});
    call->tag.root = root_of(options);
    call->steps = shm::broadcast(member_->board(), call->tag, data_of(tensor));
    return start(std::move(call), c10d::OpType::BROADCAST, options);
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override {
    const at::Tensor& input = only(inputs, false);
    const std::vector<at::Tensor>& list = one_each(outputs, true);
    for (const at::Tensor& each : list) same_size(each, input);
    return gather_all(input, list, pointers(list), c10d::OpType::ALLGATHER, options);
  }
  c10::intrusive_ptr<c10d::Work> all_gather_single(at::Tensor& output, at::Tensor& input,
                                                   const c10d::AllgatherOptions& options) override {
    check_tensor(input);
    check_tensor(output);
    TORCH_CHECK(output.nbytes() == input.nbytes() * static_cast<std::size_t>(size_),
                "the output must have room for the inputs of all ranks");
    std::vector<std::byte*> places;
    for (int rank = 0; rank < size_; ++rank) places.push_back(part_of(output, rank, input.nbytes()));
    return gather_all(input, {output}, std::move(places), c10d::OpType::_ALLGATHER_BASE, options);
  }
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs,
                                                std::vector<std::vector<at::Tensor>>& inputs,
                                                const c10d::ReduceScatterOptions& options) override {
    const at::Tensor& output = only(outputs, false);
    const std::vector<at::Tensor>& list = one_each(inputs, true);
    for (const at::Tensor& each : list) same_size(each, output);
    return scatter_sums(output, list, pointers(list), c10d::OpType::REDUCE_SCATTER, options);
  }
  c10::intrusive_ptr<c10d::Work> reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                                       const c10d::ReduceScatterOptions& options) override {
    check_tensor(input);
    check_tensor(output);
    TORCH_CHECK(input.nbytes() == output.nbytes() * static_cast<std::size_t>(size_),
                "the input must have the outputs of all ranks");
    std::vector<std::byte*> places;
    for (int rank = 0; rank < size_; ++rank) places.push_back(part_of(input, rank, output.nbytes()));
    return scatter_sums(output, {input}, places, c10d::OpType::_REDUCE_SCATTER_BASE, options);
  }
  c10::intrusive_ptr<c10d::Work> all_to_all_single(at::Tensor& output, at::Tensor& input,
                                                   std::vector<std::int64_t>& output_splits,
                                                   std::vector<std::int64_t>& input_splits,
                                                   const c10d::AllToAllOptions& options) override {
    check_tensor(input);
    check_tensor(output);
    return exchange(make(Kind::kAllToAll, 0, {input, output}, {output}), 0,
                    {splits_of(input, input_splits), splits_of(output, output_splits)},
                    c10d::OpType::ALLTOALL_BASE, options);
  }
  c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
                                          const c10d::AllToAllOptions& options) override {
    return exchange(make(Kind::kAllToAll, 0, joined(inputs, outputs), outputs), 0,
                    {parts_of(inputs), parts_of(outputs)}, c10d::OpType::ALLTOALL, options);
  }
  c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>>& outputs,
                                        std::vector<at::Tensor>& inputs,
                                        const c10d::GatherOptions& options) override {
    const at::Tensor& input = only(inputs, false);
    const std::uint32_t root = root_of(options);
    Parts parts{std::vector<shm::Part>(places()), std::vector<shm::Part>(places())};
    const std::vector<at::Tensor>& list = one_each(outputs, is(root));
    parts.out[root] = {data_of(input), input.nbytes()};
    if (is(root)) parts.in = parts_of(list);
    for (const at::Tensor& each : list) same_size(each, input);
    return exchange(make(Kind::kGather, 0, joined({input}, list), list), root, std::move(parts),
                    c10d::OpType::GATHER, options);
  }
  c10::intrusive_ptr<c10d::Work> gather_single(at::Tensor& output, at::Tensor& input,
                                               const c10d::GatherOptions& options) override {
    auto outputs = compat::parts_of_gathered(output, is(root_of(options)), size_);
    std::vector<at::Tensor> inputs{input};
    return gather(outputs, inputs, options);
  }
  c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor>& outputs,
                                         std::vector<std::vector<at::Tensor>>& inputs,
                                         const c10d::ScatterOptions& options) override {
    const at::Tensor& output = only(outputs, false);
    const std::uint32_t root = root_of(options);
    Parts parts{std::vector<shm::Part>(places()), std::vector<shm::Part>(places())};
    const std::vector<at::Tensor>& list = one_each(inputs, is(root));
    parts.in[root] = {data_of(output), output.nbytes()};
    if (is(root)) parts.out = parts_of(list);
    for (const at::Tensor& each : list) same_size(each, output);
    return exchange(make(Kind::kScatter, 0, joined(list, {output}), {output}), root, std::move(parts),
                    c10d::OpType::SCATTER, options);
  }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override {
    auto call = make(Kind::kBarrier, 0, {}, {});
    call->steps = shm::barrier(member_->board(), call->tag);
    return start(std::move(call), c10d::OpType::BARRIER, options);
  }

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override {
    return message(tensors, peer(to), tag, c10d::OpType::SEND);
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override {
    return message(tensors, peer(from), tag, c10d::OpType::RECV);
  }
  c10::intrusive_ptr<c10d::Work> recvAnysource(std::vector<at::Tensor>& tensors, int tag) override {
    return message(tensors, -1, tag, c10d::OpType::RECVANYSOURCE);
  }

 private:
  std::size_t places() const { return static_cast<std::size_t>(size_); }
  bool is(std::uint32_t root) const { return static_cast<int>(root) == rank_; }
  template <class WithRoot>
  std::uint32_t root_of(const WithRoot& options) const {
    TORCH_CHECK(options.rootRank >= 0 && options.rootRank < size_, "place ", options.rootRank,
                " is not in the group");
    return static_cast<std::uint32_t>(options.rootRank);
  }
  int peer(int place) const {
    TORCH_CHECK(place >= 0 && place < size_ && place != rank_, "place ", place,
                " is not another member of the group");
    return place;
  }
  static void same_size(const at::Tensor& one, const at::Tensor& other) {
    TORCH_CHECK(one.nbytes() == other.nbytes(), "the tensors are of different sizes");
  }
  // If `here` is true, this rank must give exactly one list, which has a tensor for each rank. Then this
  // function returns that list. If `here` is false, this rank must give no list.
  const std::vector<at::Tensor>& one_each(const std::vector<std::vector<at::Tensor>>& lists,
                                          bool here) const {
    static const std::vector<at::Tensor> kNone;
    TORCH_CHECK(here ? lists.size() == 1 && lists[0].size() == places() : lists.empty(),
                "a rank that needs a list must give one with a tensor for each rank; other ranks none");
    if (!here) return kNone;
    for (const at::Tensor& each : lists[0]) check_tensor(each);
    return lists[0];
  }
  static std::byte* part_of(const at::Tensor& tensor, int rank, std::size_t bytes) {
    std::byte* const data = data_of(tensor);
    return data == nullptr ? nullptr : data + static_cast<std::size_t>(rank) * bytes;
  }
  static std::vector<std::byte*> pointers(const std::vector<at::Tensor>& tensors) {
    std::vector<std::byte*> all;
    for (const at::Tensor& each : tensors) all.push_back(data_of(each));
    return all;
  }
  std::vector<shm::Part> parts_of(const std::vector<at::Tensor>& tensors) const {
    TORCH_CHECK(tensors.size() == places(), "one tensor is needed for each rank");
    std::vector<shm::Part> parts;
    for (const at::Tensor& each : tensors) {
      check_tensor(each);
      parts.push_back({data_of(each), each.nbytes()});
    }
    return parts;
  }
  // Divides the tensor along its first dimension. `splits` has the number of rows for each rank. If it is
  // empty, all ranks get the same number.
  std::vector<shm::Part> splits_of(const at::Tensor& tensor, const std::vector<std::int64_t>& splits) const {
    const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
    TORCH_CHECK(splits.empty() ? rows % size_ == 0 : splits.size() == places(),
                "the first dimension cannot be divided among the ranks");
    const std::size_t row_bytes = rows == 0 ? 0 : tensor.nbytes() / static_cast<std::size_t>(rows);
    std::vector<shm::Part> parts;
    std::size_t at = 0;
    for (std::size_t rank = 0; rank < places(); ++rank) {
      const std::int64_t some = splits.empty() ? rows / size_ : splits[rank];
      TORCH_CHECK(some >= 0, "a split is negative");
      const std::size_t bytes = static_cast<std::size_t>(some) * row_bytes;
      parts.push_back({bytes == 0 ? nullptr : data_of(tensor) + at, bytes});
      at += bytes;
    }
    TORCH_CHECK(at == tensor.nbytes(), "the splits do not add up to the first dimension");
    return parts;
  }

  std::shared_ptr<TensorCollective> make(Kind kind, std::size_t count, std::vector<at::Tensor> tensors,
                                         std::vector<at::Tensor> results) {
    auto call = std::make_shared<TensorCollective>(std::move(tensors), std::move(results));
    call->tag.kind = static_cast<std::uint8_t>(kind);
    call->tag.count = count;
    call->bytes = count;
    return call;
  }
  shm::Reducing reducing(shm::Collective& call, const at::Tensor& tensor, const c10d::ReduceOp& op) const {
    const shm::Type type = type_of(tensor);
    const shm::Reduction reduction = reduction_of(op);
    call.tag.type = static_cast<std::uint8_t>(type);
    call.tag.reduction = static_cast<std::uint8_t>(reduction);
    shm::Combine* const combine = shm::combine_of(type, reduction);
    TORCH_CHECK(combine != nullptr, "shm does not reduce ", c10::toString(tensor.scalar_type()),
                " by this operation");
    return {combine, static_cast<std::size_t>(tensor.element_size())};
  }
  template <class Options>
  c10::intrusive_ptr<c10d::Work> reduce_to(const at::Tensor& tensor, Kind kind, const c10d::ReduceOp& op,
                                           std::uint32_t root, c10d::OpType type, const Options& options) {
    auto call = make(kind, static_cast<std::size_t>(tensor.numel()), {tensor}, {tensor});
    const shm::Reducing how = reducing(*call, tensor, op);
    call->tag.root = root;
    call->bytes = tensor.nbytes();
    call->steps = shm::all_reduce(member_->board(), call->tag, how, data_of(tensor));
    return start(std::move(call), type, options);
  }
  c10::intrusive_ptr<c10d::Work> sum_sparse(const at::Tensor& tensor, const c10d::AllreduceOptions& options) {
    TORCH_CHECK(options.reduceOp == c10d::ReduceOp::SUM, "shm reduces sparse tensors only by SUM");
    auto call = make(Kind::kAllReduce, 0, {tensor}, {tensor});
    call->bytes = std::numeric_limits<std::size_t>::max();  // unknown
    call->steps = all_reduce_sparse(member_->board(), SparseSum(tensor));
    return start(std::move(call), c10d::OpType::_ALLREDUCE_SPARSE, options);
  }
  c10::intrusive_ptr<c10d::Work> gather_all(const at::Tensor& input, const std::vector<at::Tensor>& outputs,
                                            std::vector<std::byte*> to, c10d::OpType type,
                                            const c10d::AllgatherOptions& options) {
    auto call = make(Kind::kAllGather, input.nbytes(), joined({input}, outputs), outputs);
    call->steps = shm::all_gather(member_->board(), call->tag, data_of(input), std::move(to));
    return start(std::move(call), type, options);
  }
  c10::intrusive_ptr<c10d::Work> scatter_sums(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                                              const std::vector<std::byte*>& from, c10d::OpType type,
                                              const c10d::ReduceScatterOptions& options) {
    auto call = make(Kind::kReduceScatter, static_cast<std::size_t>(output.numel()), joined({output}, inputs),
                     {output});
    const shm::Reducing how = reducing(*call, output, options.reduceOp);
    call->bytes = output.nbytes() * places();
    call->steps =
        shm::reduce_scatter(member_->board(), call->tag, how, {from.begin(), from.end()}, data_of(output));
    return start(std::move(call), type, options);
  }
  struct Parts {
    std::vector<shm::Part> out, in;
  };
  template <class Options>
  c10::intrusive_ptr<c10d::Work> exchange(std::shared_ptr<TensorCollective> call, std::uint32_t root,
                                          Parts parts, c10d::OpType type, const Options& options) {
    const auto own = static_cast<std::size_t>(rank_);
    TORCH_CHECK(parts.out[own].bytes == parts.in[own].bytes,
                "the part that this rank sends to itself has another size than the part that it receives");
    call->tag.root = root;
    for (const shm::Part& each : parts.out) call->bytes += each.bytes;
    call->steps = shm::exchange(member_->board(), call->tag, std::move(parts.out), std::move(parts.in));
    return start(std::move(call), type, options);
  }

  template <class Options>
  c10::intrusive_ptr<c10d::Work> start(std::shared_ptr<TensorCollective> call, c10d::OpType type,
                                       const Options& options) {
    if (options.timeout != c10d::kUnsetTimeout) call->limit = options.timeout;
    call->hurried = options.asyncOp;
    return started(std::move(call), type);
  }
  c10::intrusive_ptr<c10d::Work> message(std::vector<at::Tensor>& tensors, int peer, int tag,
                                         c10d::OpType type) {
    const at::Tensor& tensor = only(tensors, false);
    auto one =
        std::make_shared<TensorMessage>(std::vector<at::Tensor>{tensor}, std::vector<at::Tensor>{tensor});
    one->sends = type == c10d::OpType::SEND;
    one->peer = peer;
    one->tag = static_cast<std::uint32_t>(tag);
    one->data = data_of(tensor);
    one->bytes = tensor.nbytes();
    one->hurried = one->sends;  // a send that does not fit into the pipe progresses even if no thread waits
    return started(std::move(one), type);
  }
  template <class OneRequest>
  c10::intrusive_ptr<c10d::Work> started(std::shared_ptr<OneRequest> request, c10d::OpType type) {
    auto work = c10::make_intrusive<ShmWork>(member_, rank_, type, request, *request, ++number_);
    member_->start(std::move(request));
    return work;
  }

  const std::shared_ptr<shm::Member> member_;
  const c10::intrusive_ptr<Options> options_;
  std::atomic<std::uint64_t> number_ = 0;
};

constexpr const char* kSegmentKey = "segment";
constexpr const char* kRefusedKey = "refused";

Expected<shm::Segment> open_segment(c10d::Store& store, const ShmSettings& settings) {
  const int size = static_cast<int>(settings.ranks.size());
  if (settings.rank > 0) return shm::Segment::open(store.get_to_str(kSegmentKey), size);
  auto segment = shm::Segment::create(size);
  if (segment) store.set(kSegmentKey, segment->address());
  return segment;
}

// A rank that cannot share memory writes the reason to the store. Returns this reason, or "" if all ranks can
// share memory.
std::string refusal_in(c10d::Store& store) {
  try {
    return store.check({kRefusedKey}) ? store.get_to_str(kRefusedKey) : "";
  } catch (const c10::Error&) {
    return {};  // the process that served the store has left; the caller itself notices which rank is missing
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_shm(const c10::intrusive_ptr<c10d::Store>& store,
                                           const ShmSettings& settings) {
  const int size = static_cast<int>(settings.ranks.size());
  if (size > shm::kMostRanks)
    throw std::invalid_argument(
        fmt::format("backend 'shm' joins at most {} ranks, but the group has {}", shm::kMostRanks, size));
  auto segment = open_segment(*store, settings);
  if (!segment) {
    const std::string why =
        fmt::format("backend 'shm' joins ranks of one host: rank {} cannot share memory with rank {}: {}",
                    settings.ranks[static_cast<std::size_t>(settings.rank)], settings.ranks[0],
                    segment.error().message());
    const std::string first = store->compareSet(kRefusedKey, std::string(), why);
    if (segment.error().code() != ErrorCode::kInvalidArgument) throw std::runtime_error(first);
    throw std::invalid_argument(first);
  }
  auto member = shm::Member::join(std::move(*segment),
                                  {.rank = settings.rank, .names = settings.ranks, .limit = settings.timeout},
                                  [&] { return refusal_in(*store); });
  if (!member) {
    if (member.error().code() == ErrorCode::kInvalidArgument)
      throw std::invalid_argument(member.error().message());
    throw std::runtime_error(fmt::format("backend 'shm': {}", member.error().message()));
  }
  // A callback of a future can release the last reference to the group. The group then destroys its
  // shm::Member. The callback may run on the member's own thread, which must not destroy the member. In this
  // case, a new thread destroys it.
  const auto let_go = [](shm::Member* last) {
    if (last->is_own_thread())
      std::thread([last] { delete last; }).detach();
    else
      delete last;
  };
  return c10::make_intrusive<ShmBackend>(std::shared_ptr<shm::Member>(member->release(), let_go),
                                         settings.rank, size, settings.timeout);
}

}  // namespace muster
