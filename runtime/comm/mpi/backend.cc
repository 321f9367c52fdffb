#include "runtime/comm/mpi/backend.h"

#include <algorithm>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cstring>
#include <fmt/format.h>

#include "runtime/comm/mpi/asker.h"
#include "runtime/comm/mpi/direct.h"
#include "runtime/comm/mpi/members.h"
#include "runtime/comm/mpi/tensors.h"
#include "runtime/comm/mpi/types.h"
#include "runtime/comm/mpi/work.h"
#include "runtime/comm/packed.h"

namespace muster::mpi {
namespace {

// A longer message is sent in pieces of this size. The size is so large that nearly all messages have only
// one piece. This matters if a receiver expects too few bytes: it would take the second piece of a message
// for the next message.
constexpr std::int64_t kMessageBytes = std::int64_t{1} << 30;

struct Waiting {
  std::chrono::milliseconds limit{};
  bool at_once = false;  // the caller waits at once
};
template <class Options>
Waiting waiting_in(const Options& options, const c10d::Backend::Options& otherwise) {
  return {options.timeout == c10d::kUnsetTimeout ? otherwise.timeout : options.timeout, !options.asyncOp};
}

// Returns a connection to the store that only the engine uses. Threads of the program can use the job's
// connection and wait, and then the engine would have to wait for them.
c10::intrusive_ptr<c10d::Store> store_of_engine(const MpiRequest& request) {
  static const c10::intrusive_ptr<c10d::Store> one = request.store->clone();
  return one;
}

}  // namespace

// Describes a call of a collective or a message, with everything that run() needs to start it.
struct MpiBackend::Plan {
  c10d::OpType type{};
  const char* title = nullptr;        // "mpi:all_reduce"
  std::function<std::string()> what;  // Operation::what()
  Waiting waiting{};
  bool collective = true;
  Tensors inputs{}, outputs{};  // the program's tensors
  std::int64_t piece_count = 1;
  std::function<int(std::int64_t, MPI_Request*)> start{};
  std::shared_ptr<DirectAllReduce> direct{};  // for large pieces
  Staging staging{};
  std::function<std::string(const Operation&, MpiWork&)> after{};  // returns an error, or an empty text
};

MpiBackend::MpiBackend(const MpiRequest& request)
    : Backend(static_cast<int>(std::ranges::find(request.ranks, request.rank) - request.ranks.begin()),
              static_cast<int>(request.ranks.size())),
      ranks_(request.ranks),
      prefix_(request.prefix),
      options_(c10::make_intrusive<Options>("mpi", request.timeout)),
      channel_(std::make_shared<Channel>()),
      direct_(std::make_shared<DirectGroup>(DirectGroup{.rank = rank_, .size = size_})) {
  options_->group_name = request.prefix;
  options_->global_ranks_in_group.assign(ranks_.begin(), ranks_.end());
  channel_->has_parts = may_be_direct(size_);
  if (size_ > 1) store_ = store_of_engine(request);
  channel_->tell = [store = store_, key = waits_key(prefix_, rank_)](std::int64_t number) {
    if (store == nullptr) return;
    Asker::of_process().post([=] {
      try {
        store->set(key, std::to_string(number));
      } catch (const std::exception&) {
        // The process that serves the store is gone.
      }
    });
  };
  channel_->missing = [store = store_, prefix = prefix_, ranks = ranks_, place = rank_](
                          std::int64_t number, std::function<void(std::string)> answer) {
    Asker::of_process().post([=] { answer(missing(store, prefix, ranks, place, number)); });
  };
  Engine::of_process().enter({.rank = request.rank, .size = request.world_size}, request.timeout);
  if (size_ > 1) meet(request);
  Engine::of_process().open(channel_, ranks_, request.timeout);
}

MpiBackend::~MpiBackend() = default;

// Closes the channel. If a group ends without a call of shutdown() while it still has work, the engine does
// not finalize MPI.
void MpiBackend::shutdown() {
  if (!closed_.exchange(true)) Engine::of_process().close(channel_);
}

void MpiBackend::abort() {
  failed_ = true;
  Engine::of_process().give_up(channel_, "the group has been aborted");
}

c10d::ErrorType MpiBackend::getError() {
  return failed_ ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

// An operation that has started. It keeps the tensors as long as MPI may use their memory.
struct MpiBackend::Started : Operation {
  Started(MpiBackend& backend, Plan what_to_do)
      : plan(std::move(what_to_do)),
        self(c10::intrusive_ptr<MpiBackend>::reclaim_copy(&backend)),
        work(c10::make_intrusive<MpiWork>(backend.rank_, plan.type, plan.title, plan.inputs, plan.outputs)) {
    channel = backend.channel_;
    collective = plan.collective;
    timeout = plan.waiting.limit;
    piece_count = plan.piece_count;
  }
  int start(std::int64_t piece, Requests& more) override {
    if (plan.direct != nullptr)
      if (const auto code = plan.direct->start(piece, channel->parts, more)) return *code;
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = plan.start(piece, &request);
    if (code == MPI_SUCCESS) more.push_back(request);
    return code;
  }
  int go_on(std::int64_t piece, Requests& more, bool& is_over) override {
    if (plan.direct != nullptr) return plan.direct->go_on(piece, more, is_over);
    return Operation::go_on(piece, more, is_over);
  }
  std::string what() const override { return plan.what(); }
  void end(const std::string& error) override {
    std::string why = error;
    try {
      if (why.empty() && plan.after) why = plan.after(*this, *work);
      if (why.empty()) plan.staging.finish();
    } catch (const std::exception& thrown) {
      why = fmt::format("{}: {}", what(), thrown.what());
    }
    if (why.empty()) return work->ended();
    if (collective) self->failed_ = true;
    work->failed(why);
  }

  const Plan plan;
  const c10::intrusive_ptr<MpiBackend> self;
  const c10::intrusive_ptr<MpiWork> work;
};

WorkPtr MpiBackend::run(Plan plan) {
  if (plan.collective) ++call_count_;
  const bool at_once = plan.waiting.at_once;
  const auto started = std::make_shared<Started>(*this, std::move(plan));
  WorkPtr work = started->work;
  Engine::of_process().submit(started, at_once);
  return work;
}

WorkPtr MpiBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = tensors.at(static_cast<std::size_t>(options.rootTensor));
  require_dense(tensor);
  const int root = static_cast<int>(options.rootRank);
  TORCH_CHECK(root >= 0 && root < size_, "the root is ", root, ", and the group has ", size_, " members");
  Plan plan{.type = c10d::OpType::BROADCAST,
            .title = "mpi:broadcast",
            .what = said("broadcast of", tensor, "from", ranks_[static_cast<std::size_t>(root)]),
            .waiting = waiting_in(options, *options_),
            .inputs = tensors,
            .outputs = tensors};
  const auto pieces = cut({root == rank_ ? plan.staging.read(tensor) : plan.staging.fill(tensor)}, 1);
  plan.piece_count = static_cast<std::int64_t>(pieces.size());
  plan.start = [pieces, root, channel = channel_](std::int64_t piece, MPI_Request* request) {
    const auto [data, count] = pieces[static_cast<std::size_t>(piece)];
    return MPI_Ibcast(data, count, MPI_BYTE, root, channel->comm, request);
  };
  return run(std::move(plan));
}

WorkPtr MpiBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return allreduce(tensors, options);
}

WorkPtr MpiBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  TORCH_CHECK(!tensors.empty(), "no tensor is given");
  const at::ScalarType type = tensors.front().scalar_type();
  require_reducible(type, options.reduceOp);
  Plan plan{.type = c10d::OpType::ALLREDUCE,
            .title = "mpi:all_reduce",
            .what = said("all_reduce of", tensors.front()),
            .waiting = waiting_in(options, *options_),
            .inputs = tensors,
            .outputs = tensors};
  Tensors hosts;
  for (const at::Tensor& each : tensors) {
    require_dense(each);
    TORCH_CHECK(each.scalar_type() == type, "the tensors are of different types");
    hosts.push_back(plan.staging.change(each));
  }
  auto pieces = cut(hosts, static_cast<std::int64_t>(c10::elementSize(type)));
  plan.piece_count = static_cast<std::int64_t>(pieces.size());
  const auto is_in_parts = [&](const Piece& piece) {
    return is_direct(piece.count * static_cast<std::int64_t>(c10::elementSize(type)), size_);
  };
  const bool some_in_parts = std::ranges::any_of(pieces, is_in_parts);
  auto data_of = [pieces = std::move(pieces), type, op = options.reduceOp](std::int64_t piece) {
    const auto [bytes, count] = pieces[static_cast<std::size_t>(piece)];
    return DirectAllReduce::Data{bytes, count, c10::elementSize(type), datatype_of(type),
                                 operation_of(type, op)};
  };
  if (some_in_parts) plan.direct = std::make_shared<DirectAllReduce>(direct_, data_of);
  plan.start = [data_of = std::move(data_of), channel = channel_](std::int64_t piece, MPI_Request* request) {
    const auto data = data_of(piece);
    return MPI_Iallreduce(MPI_IN_PLACE, data.bytes, data.count, data.type, data.op, channel->comm, request);
  };
  if (options.reduceOp == c10d::ReduceOp::AVG)
    plan.after = [hosts, type, size = size_](const Operation&, MpiWork&) {
      for (const at::Tensor& each : hosts) divide(bytes_of(each), each.numel(), type, size);
      return std::string();
    };
  return run(std::move(plan));
}

WorkPtr MpiBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = tensors.at(static_cast<std::size_t>(options.rootTensor));
  const at::ScalarType type = tensor.scalar_type();
  require_dense(tensor);
  require_reducible(type, options.reduceOp);
  const int root = static_cast<int>(options.rootRank);
  const bool is_root = root == rank_;
  Plan plan{.type = c10d::OpType::REDUCE,
            .title = "mpi:reduce",
            .what = said("reduce of", tensor, "to", ranks_.at(static_cast<std::size_t>(root))),
            .waiting = waiting_in(options, *options_),
            .inputs = tensors,
            .outputs = tensors};
  const at::Tensor host = is_root ? plan.staging.change(tensor) : plan.staging.read(tensor);
  const auto pieces = cut({host}, static_cast<std::int64_t>(c10::elementSize(type)));
  plan.piece_count = static_cast<std::int64_t>(pieces.size());
  plan.start = [=, op = options.reduceOp, channel = channel_](std::int64_t piece, MPI_Request* request) {
    const auto [data, count] = pieces[static_cast<std::size_t>(piece)];
    return MPI_Ireduce(is_root ? MPI_IN_PLACE : data, is_root ? data : nullptr, count, datatype_of(type),
                       operation_of(type, op), root, channel->comm, request);
  };
  if (is_root && options.reduceOp == c10d::ReduceOp::AVG)
    plan.after = [=, size = size_](const Operation&, MpiWork&) {
      divide(bytes_of(host), host.numel(), type, size);
      return std::string();
    };
  return run(std::move(plan));
}

// Each output receives all members' inputs.
WorkPtr MpiBackend::gather_all(const Tensors& outputs, const Tensors& inputs, Plan plan) {
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  for (std::size_t each = 0; each < inputs.size(); ++each) {
    require_contiguous(inputs[each]);
    require_contiguous(outputs[each]);
    TORCH_CHECK(outputs[each].nbytes() == inputs[each].nbytes() * static_cast<std::size_t>(size_),
                "an output of ", size_, " times the input is expected, not ", shape_text(outputs[each]),
                " for ", shape_text(inputs[each]));
    count_of(static_cast<std::int64_t>(inputs[each].nbytes()));
    pairs.emplace_back(plan.staging.fill(outputs[each]), plan.staging.read(inputs[each]));
  }
  plan.inputs = inputs;
  plan.piece_count = static_cast<std::int64_t>(pairs.size());
  plan.start = [pairs, place = rank_, channel = channel_](std::int64_t piece, MPI_Request* request) {
    const auto& [to, from] = pairs[static_cast<std::size_t>(piece)];
    const int count = static_cast<int>(from.nbytes());
    const bool in_place = bytes_of(from) == bytes_of(to) + static_cast<std::ptrdiff_t>(place) * count;
    return MPI_Iallgather(in_place ? MPI_IN_PLACE : bytes_of(from), count, MPI_BYTE, bytes_of(to), count,
                          MPI_BYTE, channel->comm, request);
  };
  return run(std::move(plan));
}

WorkPtr MpiBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(inputs);
  require_one_each(only(outputs), size_, input);
  Plan plan{.type = c10d::OpType::ALLGATHER,
            .title = "mpi:all_gather",
            .what = said("all_gather of", input),
            .waiting = waiting_in(options, *options_),
            .outputs = outputs.front()};
  const at::Tensor row = room_for(outputs.front());
  Tensors hosts;
  for (const at::Tensor& each : outputs.front()) hosts.push_back(plan.staging.fill(each));
  plan.staging.spread(row, hosts);
  return gather_all({row}, {input}, std::move(plan));
}

WorkPtr MpiBackend::all_gather_single(at::Tensor& output, at::Tensor& input,
                                      const c10d::AllgatherOptions& options) {
  return gather_all({output}, {input},
                    {.type = c10d::OpType::_ALLGATHER_BASE,
                     .title = "mpi:_all_gather_base",
                     .what = said("all_gather_into_tensor of", input),
                     .waiting = waiting_in(options, *options_),
                     .outputs = {output}});
}

WorkPtr MpiBackend::all_gather_single_coalesced(Tensors& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), "as many outputs as inputs are expected");
  return gather_all(
      outputs, inputs,
      {.type = c10d::OpType::_ALLGATHER_BASE,
       .title = "mpi:all_gather_into_tensor_coalesced",
       .what = [count = inputs.size()] { return fmt::format("all_gather_into_tensor of {} tensors", count); },
       .waiting = waiting_in(options, *options_),
       .outputs = outputs});
}

// Each input is divided into a part for each member. Reduces the parts that all members have for this member,
// and writes the result to the output.
WorkPtr MpiBackend::reduce_parts(const Tensors& outputs, const Tensors& inputs, const c10d::ReduceOp& op,
                                 Plan plan) {
  struct Pair {
    at::Tensor to, from;
    at::ScalarType type{};
  };
  std::vector<Pair> pairs;
  for (std::size_t each = 0; each < outputs.size(); ++each) {
    const at::ScalarType type = outputs[each].scalar_type();
    require_reducible(type, op);
    require_contiguous(inputs[each]);
    require_contiguous(outputs[each]);
    TORCH_CHECK(inputs[each].nbytes() == outputs[each].nbytes() * static_cast<std::size_t>(size_),
                "an input of ", size_, " times the output is expected, not ", shape_text(inputs[each]),
                " for ", shape_text(outputs[each]));
    count_of(outputs[each].numel());
    // torch allows that an output lies inside its input. MPI has no form of this call for that. So this code
    // copies such an input.
    const at::Tensor from = plan.staging.read(inputs[each]);
    const at::Tensor to = plan.staging.fill(outputs[each]);
    pairs.push_back({to, overlap(to, from) ? from.clone() : from, type});
  }
  plan.outputs = outputs;
  plan.piece_count = static_cast<std::int64_t>(pairs.size());
  plan.start = [pairs, op, channel = channel_](std::int64_t piece, MPI_Request* request) {
    const auto& [to, from, type] = pairs[static_cast<std::size_t>(piece)];
    return MPI_Ireduce_scatter_block(bytes_of(from), bytes_of(to), static_cast<int>(to.numel()),
                                     datatype_of(type), operation_of(type, op), channel->comm, request);
  };
  if (op == c10d::ReduceOp::AVG)
    plan.after = [pairs, size = size_](const Operation&, MpiWork&) {
      for (const auto& [to, from, type] : pairs) divide(bytes_of(to), to.numel(), type, size);
      return std::string();
    };
  return run(std::move(plan));
}

WorkPtr MpiBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                   const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = only(outputs);
  require_one_each(only(inputs), size_, output);
  Tensors hosts;
  for (const at::Tensor& each : inputs.front()) hosts.push_back(each.cpu());
  return reduce_parts(outputs, {joined(hosts)}, options.reduceOp,
                      {.type = c10d::OpType::REDUCE_SCATTER,
                       .title = "mpi:reduce_scatter",
                       .what = said("reduce_scatter to", output),
                       .waiting = waiting_in(options, *options_),
                       .inputs = inputs.front()});
}

WorkPtr MpiBackend::reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                          const c10d::ReduceScatterOptions& options) {
  return reduce_parts({output}, {input}, options.reduceOp,
                      {.type = c10d::OpType::_REDUCE_SCATTER_BASE,
                       .title = "mpi:_reduce_scatter_base",
                       .what = said("reduce_scatter_tensor to", output),
                       .waiting = waiting_in(options, *options_),
                       .inputs = {input}});
}

WorkPtr MpiBackend::reduce_scatter_single_coalesced(Tensors& outputs, Tensors& inputs,
                                                    const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), "as many outputs as inputs are expected");
  return reduce_parts(
      outputs, inputs, options.reduceOp,
      {.type = c10d::OpType::_REDUCE_SCATTER_BASE,
       .title = "mpi:reduce_scatter_tensor_coalesced",
       .what = [count = outputs.size()] { return fmt::format("reduce_scatter_tensor to {} tensors", count); },
       .waiting = waiting_in(options, *options_),
       .inputs = inputs});
}

WorkPtr MpiBackend::all_to_all_single(at::Tensor& output, at::Tensor& input,
                                      std::vector<std::int64_t>& output_splits,
                                      std::vector<std::int64_t>& input_splits,
                                      const c10d::AllToAllOptions& options) {
  require_contiguous(output);
  require_contiguous(input);
  c10d::checkSplitSizes(input_splits, input, size_);
  c10d::checkSplitSizes(output_splits, output, size_);
  const auto parts_of = [&](const at::Tensor& tensor, const std::vector<std::int64_t>& splits) {
    const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
    const std::int64_t row_bytes = rows == 0 ? 0 : static_cast<std::int64_t>(tensor.nbytes()) / rows;
    Parts parts;
    for (int each = 0; each < size_; ++each)
      parts.add((splits.empty() ? rows / size_ : splits[static_cast<std::size_t>(each)]) * row_bytes);
    return parts;
  };
  Plan plan{.type = c10d::OpType::ALLTOALL_BASE,
            .title = "mpi:all_to_all_base",
            .what = said("all_to_all_single of", input),
            .waiting = waiting_in(options, *options_),
            .inputs = {input},
            .outputs = {output}};
  const at::Tensor to = plan.staging.fill(output);
  const at::Tensor from = plan.staging.read(input);
  plan.start = [to, from, get = parts_of(output, output_splits), give = parts_of(input, input_splits),
                channel = channel_](std::int64_t, MPI_Request* request) {
    return MPI_Ialltoallv(bytes_of(from), give.counts.data(), give.offsets.data(), MPI_BYTE, bytes_of(to),
                          get.counts.data(), get.offsets.data(), MPI_BYTE, channel->comm, request);
  };
  return run(std::move(plan));
}

WorkPtr MpiBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  Plan plan{.type = c10d::OpType::ALLTOALL,
            .title = "mpi:all_to_all",
            .what = [count = inputs.size()] { return fmt::format("all_to_all of {} tensors", count); },
            .waiting = waiting_in(options, *options_),
            .inputs = inputs,
            .outputs = outputs};
  const auto size = static_cast<std::size_t>(size_);
  TORCH_CHECK(inputs.size() == size && outputs.size() == size, size_,
              " inputs and outputs are expected, not ", inputs.size(), " and ", outputs.size());
  Parts get, give;
  Tensors hosts, filled;
  for (std::size_t each = 0; each < size; ++each) {
    require_contiguous(inputs[each]);
    require_contiguous(outputs[each]);
    give.add(static_cast<std::int64_t>(inputs[each].nbytes()));
    get.add(static_cast<std::int64_t>(outputs[each].nbytes()));
    hosts.push_back(inputs[each].cpu());
    filled.push_back(plan.staging.fill(outputs[each]));
  }
  const at::Tensor from = joined(hosts);
  const at::Tensor to = room_for(outputs);
  plan.staging.spread(to, filled);
  plan.start = [=, channel = channel_](std::int64_t, MPI_Request* request) {
    return MPI_Ialltoallv(bytes_of(from), give.counts.data(), give.offsets.data(), MPI_BYTE, bytes_of(to),
                          get.counts.data(), get.offsets.data(), MPI_BYTE, channel->comm, request);
  };
  return run(std::move(plan));
}

WorkPtr MpiBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                           const c10d::GatherOptions& options) {
  const at::Tensor& input = only(inputs);
  require_contiguous(input);
  const int root = static_cast<int>(options.rootRank);
  Plan plan{.type = c10d::OpType::GATHER,
            .title = "mpi:gather",
            .what = said("gather of", input, "to", ranks_.at(static_cast<std::size_t>(root))),
            .waiting = waiting_in(options, *options_),
            .inputs = inputs};
  at::Tensor row;
  if (root == rank_) {
    require_one_each(only(outputs), size_, input);
    plan.outputs = outputs.front();
    row = room_for(outputs.front());
    Tensors filled;
    for (const at::Tensor& each : outputs.front()) filled.push_back(plan.staging.fill(each));
    plan.staging.spread(row, filled);
  }
  const int count = count_of(static_cast<std::int64_t>(input.nbytes()));
  plan.start = [=, from = plan.staging.read(input), channel = channel_](std::int64_t, MPI_Request* request) {
    return MPI_Igather(bytes_of(from), count, MPI_BYTE, row.defined() ? bytes_of(row) : nullptr, count,
                       MPI_BYTE, root, channel->comm, request);
  };
  return run(std::move(plan));
}

WorkPtr MpiBackend::gather_single(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options) {
  auto outputs = compat::parts_of_gathered(output, options.rootRank == rank_, size_);
  Tensors inputs{input};
  return gather(outputs, inputs, options);
}

WorkPtr MpiBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                            const c10d::ScatterOptions& options) {
  const at::Tensor& output = only(outputs);
  require_contiguous(output);
  const int root = static_cast<int>(options.rootRank);
  Plan plan{.type = c10d::OpType::SCATTER,
            .title = "mpi:scatter",
            .what = said("scatter of", output, "from", ranks_.at(static_cast<std::size_t>(root))),
            .waiting = waiting_in(options, *options_),
            .outputs = outputs};
  at::Tensor row;
  if (root == rank_) {
    require_one_each(only(inputs), size_, output);
    plan.inputs = inputs.front();
    Tensors hosts;
    for (const at::Tensor& each : inputs.front()) hosts.push_back(each.cpu());
    row = joined(hosts);
  }
  const int count = count_of(static_cast<std::int64_t>(output.nbytes()));
  plan.start = [=, to = plan.staging.fill(output), channel = channel_](std::int64_t, MPI_Request* request) {
    return MPI_Iscatter(row.defined() ? bytes_of(row) : nullptr, count, MPI_BYTE, bytes_of(to), count,
                        MPI_BYTE, root, channel->comm, request);
  };
  return run(std::move(plan));
}

WorkPtr MpiBackend::barrier(const c10d::BarrierOptions& options) {
  return run(
      {.type = c10d::OpType::BARRIER,
       .title = "mpi:barrier",
       .what = [] { return std::string("barrier"); },
       .waiting = waiting_in(options, *options_),
       .start = [channel = channel_](std::int64_t,
                                     MPI_Request* request) { return MPI_Ibarrier(channel->comm, request); }});
}

// Sends `tensor` to the member `peer`, or receives it from there. If `peer` is MPI_ANY_SOURCE, it receives a
// message from any member.
WorkPtr MpiBackend::message(at::Tensor& tensor, int peer, int tag, bool sends) {
  require_contiguous(tensor);
  const bool anybody = peer == MPI_ANY_SOURCE;
  TORCH_CHECK(anybody || (peer >= 0 && peer < size_ && peer != rank_), "the peer is ", peer,
              "; it must be another of the ", size_, " members");
  TORCH_CHECK(tag >= 0, "the tag is ", tag, "; it must be 0 or more");
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  TORCH_CHECK(!anybody || bytes <= kMessageBytes, "a message from any rank may have at most 1 GiB, not ",
              bytes, " bytes");
  const int rank = anybody ? -1 : ranks_[static_cast<std::size_t>(peer)];
  Plan plan{.type = sends     ? c10d::OpType::SEND
                    : anybody ? c10d::OpType::RECVANYSOURCE
                              : c10d::OpType::RECV,
            .title = sends ? "mpi:send" : "mpi:recv",
            .what =
                [=] {
                  return fmt::format("{} of {} {} {}, tag {}", sends ? "send" : "recv", shape_text(tensor),
                                     sends ? "to" : "from",
                                     anybody ? "any rank" : fmt::format("rank {}", rank), tag);
                },
            .waiting = {.limit = options_->timeout},
            .collective = false,
            .inputs = sends ? Tensors{tensor} : Tensors{},
            .outputs = sends ? Tensors{} : Tensors{tensor}};
  at::Tensor host = tensor;
  if (!tensor.is_cpu() && sends_from_gpus())
    c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device()).synchronize();
  else
    host = sends ? plan.staging.read(tensor) : plan.staging.fill(tensor);
  plan.piece_count = std::max<std::int64_t>(1, (bytes + kMessageBytes - 1) / kMessageBytes);
  const int last = static_cast<int>(bytes - (plan.piece_count - 1) * kMessageBytes);
  plan.start = [=, count = plan.piece_count, channel = channel_](std::int64_t piece, MPI_Request* request) {
    char* const data = bytes_of(host) + piece * kMessageBytes;
    const int length = piece == count - 1 ? last : static_cast<int>(kMessageBytes);
    return sends ? MPI_Isend(data, length, MPI_BYTE, peer, tag, channel->comm, request)
                 : MPI_Irecv(data, length, MPI_BYTE, peer, tag, channel->comm, request);
  };
  if (!sends)
    plan.after = [last](const Operation& ended, MpiWork& work) {
      work.received_from(ended.status.MPI_SOURCE);
      int came = 0;
      MPI_Get_count(&ended.status, MPI_BYTE, &came);
      return came == last ? std::string()
                          : fmt::format("{}: {} bytes arrived, not {}", ended.what(), came, last);
    };
  return run(std::move(plan));
}

WorkPtr MpiBackend::send(Tensors& tensors, int destination, int tag) {
  TORCH_CHECK(destination != MPI_ANY_SOURCE, "a message must go to one member");
  at::Tensor tensor = only(tensors);
  return message(tensor, destination, tag, /*sends=*/true);
}
WorkPtr MpiBackend::recv(Tensors& tensors, int source, int tag) {
  at::Tensor tensor = only(tensors);
  return message(tensor, source, tag, /*sends=*/false);
}
WorkPtr MpiBackend::recvAnysource(Tensors& tensors, int tag) {
  at::Tensor tensor = only(tensors);
  return message(tensor, MPI_ANY_SOURCE, tag, /*sends=*/false);
}

}  // namespace muster::mpi

extern "C" [[gnu::visibility("default")]] void muster_make_mpi(muster::MpiRequest* request) {
  request->backend = c10::make_intrusive<muster::mpi::MpiBackend>(*request);
}

extern "C" [[gnu::visibility("default")]] std::uint64_t muster_module_torch() {
  return muster::compat::kTorchVersion;
}
