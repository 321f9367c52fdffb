// Operations of a group's members on tensors and objects: torch.distributed's functions, by their names.
//
//   muster::all_reduce(group, tensor);                    // in place: the sum over the members
//   const auto parts = muster::all_gather(group, tensor); // each member's tensor
//   muster::broadcast(job, tensor, 0);                    // a Job means all its ranks
//
// - All members must call the same functions in the same order. `src` and `dst` are ranks of the job, as in
//   PyTorch; lists are in the order of group.ranks().
// - CPU tensors use Gloo. CUDA tensors use NCCL, in the current stream. Functions that do not reduce accept
//   any type and memory layout.
// - Wrong arguments throw std::invalid_argument; a rank that is not a member gets std::logic_error.
// - If a call cannot complete because of other members, it throws std::runtime_error, which names the call
//   and the group. On the CPU, the error also names a rank that is in another call. If the program has called
//   new_group(), the error also names a rank whose process has ended.
// - On the CPU, all functions but isend() and irecv() return when this rank's part is done. On a GPU, only
//   the current stream waits.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <memory>
#include <muster/comm/group.h>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// kAvg is only for floating-point numbers. kBand, kBor and kBxor are bitwise, and only for integers.
enum class ReduceOp { kSum, kMin, kMax, kProduct, kAvg, kBand, kBor, kBxor };

// Reduces in place; all members get the same result. Tensors on the CPU can have floating-point numbers of
// 16, 32 and 64 bits, signed integers of 8, 32 and 64 bits, uint8, or bool. For bool, the sum means "any" and
// the product means "all".
void all_reduce(const Group& group, const at::Tensor& tensor, ReduceOp op = ReduceOp::kSum);

// Copies the tensor of the rank `src` into the tensors of all members. Shape and type must be the same on all
// members.
void broadcast(const Group& group, const at::Tensor& tensor, int src);

// Returns each member's tensor. The tensors can have different shapes, but must have the same type.
std::vector<at::Tensor> all_gather(const Group& group, const at::Tensor& tensor);
// As all_gather(), but returns the result in one tensor, `output`. All inputs must have the same shape, so
// the members need not send the shapes first. If inputs have the shape [n, ...], `output` has the shape
// `[size * n, ...]` or `[size, n, ...]`.
void all_gather_into_tensor(const Group& group, const at::Tensor& output, const at::Tensor& input);

// Each member passes a part for every member: inputs[p] is the part for the member at place p. So each member
// has a part for this member. Reduces these parts, and returns the result. The parts must have the same
// shape.
at::Tensor reduce_scatter(const Group& group, const std::vector<at::Tensor>& inputs,
                          ReduceOp op = ReduceOp::kSum);
// As reduce_scatter(), but all parts lie in one tensor, `input`, and have the same shape. They lie there in
// the same way as in the output of all_gather_into_tensor().
void reduce_scatter_tensor(const Group& group, const at::Tensor& output, const at::Tensor& input,
                           ReduceOp op = ReduceOp::kSum);

// Sends inputs[p] to the member at place p. Returns the tensors that the members sent to this one. The
// tensors can have different shapes.
std::vector<at::Tensor> all_to_all(const Group& group, const std::vector<at::Tensor>& inputs);
// As all_to_all(), but the parts are in two tensors. `input` has the parts to send, one after the other along
// the first dimension. `output` gets the received parts in the same way. output_split_sizes and
// input_split_sizes have the sizes of the parts. If one of these lists is empty, all parts of its tensor have
// the same size.
void all_to_all_single(const Group& group, const at::Tensor& output, const at::Tensor& input,
                       const std::vector<std::int64_t>& output_split_sizes = {},
                       const std::vector<std::int64_t>& input_split_sizes = {});

// Sends each member's tensor to the rank `dst`. There, the function returns all of these tensors; elsewhere
// it returns an empty vector. The tensors can have different shapes.
std::vector<at::Tensor> gather(const Group& group, const at::Tensor& tensor, int dst);
// The rank `src` sends inputs[p] to the member at place p, which gets it in `output`. On every member,
// `output` must have the right shape. Only `src` passes inputs.
void scatter(const Group& group, const at::Tensor& output, const std::vector<at::Tensor>& inputs, int src);

// Waits until all members have called barrier().
void barrier(const Group& group);

// Sends to one member. Messages from one member to another with the same tag arrive in the order of sending.
void send(const Group& group, const at::Tensor& tensor, int dst, int tag = 0);
// Receives a message into the tensor, from the rank `src`. If `src` is empty, receives from any member.
// Returns the sender's rank.
int recv(const Group& group, const at::Tensor& tensor, std::optional<int> src = std::nullopt, int tag = 0);

// An operation in progress. Do not use its tensor before wait() returns. Call wait() exactly once, before the
// group is destroyed.
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
// isend() and irecv() start an operation with one other member. Any number of operations can be in progress,
// in both directions, and both members can receive before they send. NCCL ignores tags.
// With NCCL, the first call of rank A with rank B returns only when B makes its first call with A. So in a
// ring, one rank must first call with the next rank, and all others with the previous rank. Otherwise all of
// them wait for ever.
Work isend(const Group& group, const at::Tensor& tensor, int dst, int tag = 0);
Work irecv(const Group& group, const at::Tensor& tensor, int src, int tag = 0);

// These functions send objects: byte strings, or nlohmann::json values as CBOR. They always use the CPU.
std::vector<std::string> all_gather_object(const Group& group, const std::string& object);
std::vector<std::string> gather_object(const Group& group, const std::string& object, int dst);
std::string broadcast_object(const Group& group, const std::string& object, int src);
std::string scatter_object(const Group& group, const std::vector<std::string>& objects, int src);
void send_object(const Group& group, const std::string& object, int dst, int tag = 0);
std::string recv_object(const Group& group, int src, int tag = 0);

namespace detail {

// A type with the functions of nlohmann::json. The concept does not name nlohmann::json, because programs
// that send no JSON need not have its header.
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
