// What the members of a group do together with tensors and with objects: torch.distributed's functions, by
// their names.
//
//   muster::all_reduce(group, tensor);                    // in place: the sum over the members
//   const auto parts = muster::all_gather(group, tensor); // of each member, its tensor
//   muster::broadcast(job, tensor, 0);                    // a Job stands for its world
//
// Every member calls the same functions in the same order. `src` and `dst` are ranks of the job, as in
// PyTorch; lists are in the order of group.ranks(). Tensors of the CPU go over Gloo, of a GPU over NCCL, then
// in the current stream; they may be of any type and layout in memory where nothing is added up. Wrong
// arguments throw std::invalid_argument, and a rank that is not a member std::logic_error; what the others
// keep from ending throws std::runtime_error, which names the call, the group, and, on the CPU, the rank that
// is in another call or, where groups have been made, gone. All but isend() and irecv() return when this
// rank's part is done.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <memory>
#include <muster/comm/group.h>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// kAvg: of floating-point numbers; kBand, kBor and kBxor, bit by bit: of integers.
enum class ReduceOp { kSum, kMin, kMax, kProduct, kAvg, kBand, kBor, kBxor };

// In place, the same on all members. On the CPU of what Gloo adds up: floating-point numbers of 16, 32 and 64
// bits, signed integers of 8, 32 and 64, bytes, and bools, whose sum is "any" and whose product is "all".
void all_reduce(const Group& group, const at::Tensor& tensor, ReduceOp op = ReduceOp::kSum);

// In place: what `src` has. Shape and type are the same on all.
void broadcast(const Group& group, const at::Tensor& tensor, int src);

// Of each member its tensor. Shapes may differ, the type may not.
std::vector<at::Tensor> all_gather(const Group& group, const at::Tensor& tensor);
// Of inputs of one shape, in one tensor, without a message about shapes: output is [size * n, ...] or
// [size, n, ...] for inputs of [n, ...].
void all_gather_into_tensor(const Group& group, const at::Tensor& output, const at::Tensor& input);

// The sum over the members of what each has for this one: inputs[p] is for the member at place p, and has one
// shape on all members.
at::Tensor reduce_scatter(const Group& group, const std::vector<at::Tensor>& inputs,
                          ReduceOp op = ReduceOp::kSum);
// The same of parts of one shape, in one tensor: the inverse of all_gather_into_tensor().
void reduce_scatter_tensor(const Group& group, const at::Tensor& output, const at::Tensor& input,
                           ReduceOp op = ReduceOp::kSum);

// Of each member what it has for this one: inputs[p] goes to the member at place p. Shapes may differ.
std::vector<at::Tensor> all_to_all(const Group& group, const std::vector<at::Tensor>& inputs);
// Of one tensor each, cut along its first dimension into parts of these sizes; none given: equal parts.
void all_to_all_single(const Group& group, const at::Tensor& output, const at::Tensor& input,
                       const std::vector<std::int64_t>& output_split_sizes = {},
                       const std::vector<std::int64_t>& input_split_sizes = {});

// On `dst` the tensor of each member, on the others nothing. Shapes may differ.
std::vector<at::Tensor> gather(const Group& group, const at::Tensor& tensor, int dst);
// Into `output`, which has its shape already: inputs[p] of `src`, which alone gives inputs.
void scatter(const Group& group, const at::Tensor& output, const std::vector<at::Tensor>& inputs, int src);

// Returns when all members have entered it.
void barrier(const Group& group);

// Between two members. What one sends to another with one tag arrives in that order.
void send(const Group& group, const at::Tensor& tensor, int dst, int tag = 0);
// Into the tensor, from `src`, or from any; the rank that sent it.
int recv(const Group& group, const at::Tensor& tensor, std::optional<int> src = std::nullopt, int tag = 0);

// Something that is under way: its tensor may not be used before wait() has returned, which comes once, and
// before the group goes.
class [[nodiscard]] Work {
 public:
  struct State;
  explicit Work(std::unique_ptr<State> state);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();
  void wait();

 private:
  std::unique_ptr<State> state_;
};
// Any number may be under way, in both directions, and both may receive before they send. Over NCCL tags mean
// nothing, and the first message with another rank returns when that one comes to its first with this rank:
// in a ring one rank begins with the next, and the others with the one before.
Work isend(const Group& group, const at::Tensor& tensor, int dst, int tag = 0);
Work irecv(const Group& group, const at::Tensor& tensor, int src, int tag = 0);

// Objects: strings of bytes, and values of nlohmann::json, which travel as CBOR. Over the CPU always.
std::vector<std::string> all_gather_object(const Group& group, const std::string& object);
std::vector<std::string> gather_object(const Group& group, const std::string& object, int dst);
std::string broadcast_object(const Group& group, const std::string& object, int src);
std::string scatter_object(const Group& group, const std::vector<std::string>& objects, int src);
void send_object(const Group& group, const std::string& object, int dst, int tag = 0);
std::string recv_object(const Group& group, int src, int tag = 0);

namespace detail {

// nlohmann::json, without its header, which a program that sends none need not have.
template <class Value>
concept JsonValue = requires(const Value& value, const std::string& bytes) {
  Value::to_cbor(value);
  Value::from_cbor(bytes);
};
template <JsonValue Json>
std::string to_bytes(const Json& value) {
  const auto bytes = Json::to_cbor(value);
  return {bytes.begin(), bytes.end()};
}
template <JsonValue Json>
std::vector<Json> from_bytes(const std::vector<std::string>& all) {
  std::vector<Json> values;
  for (const std::string& bytes : all) values.push_back(Json::from_cbor(bytes));
  return values;
}

}  // namespace detail

template <detail::JsonValue Json>
std::vector<Json> all_gather_object(const Group& group, const Json& object) {
  return detail::from_bytes<Json>(all_gather_object(group, detail::to_bytes(object)));
}
template <detail::JsonValue Json>
std::vector<Json> gather_object(const Group& group, const Json& object, int dst) {
  return detail::from_bytes<Json>(gather_object(group, detail::to_bytes(object), dst));
}
template <detail::JsonValue Json>
Json broadcast_object(const Group& group, const Json& object, int src) {
  return Json::from_cbor(broadcast_object(group, detail::to_bytes(object), src));
}
template <detail::JsonValue Json>
Json scatter_object(const Group& group, const std::vector<Json>& objects, int src) {
  std::vector<std::string> all;
  for (const Json& object : objects) all.push_back(detail::to_bytes(object));
  return Json::from_cbor(scatter_object(group, all, src));
}
template <detail::JsonValue Json>
void send_object(const Group& group, const Json& object, int dst, int tag = 0) {
  send_object(group, detail::to_bytes(object), dst, tag);
}
template <detail::JsonValue Json>
Json recv_object(const Group& group, int src, int tag = 0) {
  return Json::from_cbor(recv_object(group, src, tag));
}

}  // namespace muster
