// Gloo supports only a few types. So if a collective does not reduce, it sends its tensors as bytes.

#include <algorithm>
#include <concepts>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <muster/comm/collectives.h>
#include <muster/comm/job.h>
#include <ranges>
#include <stdexcept>
#include <torch/csrc/autograd/grad_mode.h>

#include "runtime/comm/call.h"
#include "runtime/comm/packed.h"
#include "runtime/torch_versions.h"

namespace muster {
namespace {

std::string type_text(const at::Tensor& tensor) {
  return tensor.defined() ? c10::toString(tensor.scalar_type()) : "an undefined tensor";
}

// A header describes a tensor, so that another rank can receive it. It has room for this many numbers: the
// type, the number of dimensions, and the size of each dimension.
constexpr std::int64_t kHeaderNumbers = 16;
constexpr std::int64_t kMostDimensions = kHeaderNumbers - 2;

std::int64_t* numbers_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t*>(tensor.mutable_data_ptr());
}

void write_header(const at::Tensor& tensor, std::int64_t* to) {
  to[0] = static_cast<std::int64_t>(tensor.scalar_type());
  to[1] = tensor.dim();
  std::ranges::copy(tensor.sizes(), to + 2);
}

struct Header {
  at::ScalarType type{};
  std::vector<std::int64_t> sizes;
  std::int64_t bytes = 0;

  explicit Header(const std::int64_t* from) : type(static_cast<at::ScalarType>(from[0])) {
    sizes.assign(from + 2, from + 2 + from[1]);
    bytes = static_cast<std::int64_t>(c10::elementSize(type));
    for (const std::int64_t size : sizes) bytes *= size;
  }
  // Returns the tensor that this header describes. Its bytes begin at `offset` in `row`.
  at::Tensor tensor_in(const at::Tensor& row, std::int64_t offset) const {
    at::Tensor part = row.narrow(0, offset, bytes);
    if (part.storage_offset() % static_cast<std::int64_t>(c10::elementSize(type)) != 0) part = part.clone();
    return part.view(type).view(sizes);
  }
};

// This rank's part in one call of the group.
class Part {
 public:
  Part(const Group& group, std::function<std::string()> text)
      : group_(group), call_(group, std::move(text)) {}

  int size() const { return group_.size(); }
  int place() const { return group_.rank(); }
  const std::vector<int>& ranks() const { return group_.ranks(); }
  [[noreturn]] void refuse(const std::string& reason) const { call_.refuse(reason); }
  void require(bool condition, const char* otherwise) const {
    if (!condition) refuse(otherwise);
  }
  // Calls `otherwise` to make the message, but only if the call is refused. Making the message takes as long
  // as a small collective needs to get to its backend.
  template <std::invocable Otherwise>
  void require(bool condition, const Otherwise& otherwise) const {
    if (!condition) refuse(otherwise());
  }
  void require_one_each(std::size_t count, const char* what) const {
    require(std::cmp_equal(count, size()), [&] {
      return fmt::format("{} {} are given; {} are needed, one for each member", count, what, size());
    });
  }
  // The program has named a rank of the job as `src` or `dst`. Returns the place of this rank in the group.
  int place_of(int job_rank) const {
    require(std::ranges::binary_search(ranks(), job_rank),
            [&] { return fmt::format("rank {} is not in it", job_rank); });
    return group_.place_of(job_rank);
  }
  void require_usable(const at::Tensor& tensor) const {
    require(tensor.defined(), "the tensor is undefined");
    require(tensor.layout() == at::kStrided, "the tensor is sparse");
    require(tensor.dim() <= kMostDimensions, [&] {
      return fmt::format("the tensor has {} dimensions; at most {} are supported", tensor.dim(),
                         kMostDimensions);
    });
  }

  // For CPU tensors, these functions set asyncOp to false. This value tells the backend that the caller waits
  // for the result at once. The backends for CUDA tensors give asyncOp another meaning. So for CUDA tensors,
  // these functions set asyncOp to true.
  void all_reduce(at::Tensor row, ReduceOp op);
  void reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op);
  // All inputs must have the same shape. Gloo adds a list of inputs in one order, and the parts of a single
  // tensor in another order. So this function passes the list on, to get the same result as a Python program
  // that passes a list.
  void reduce_scatter(const at::Tensor& output, const std::vector<at::Tensor>& inputs, ReduceOp op);
  void broadcast(at::Tensor bytes, int place);
  void all_gather(at::Tensor output, at::Tensor input);
  void all_to_all(at::Tensor output, at::Tensor input, std::vector<std::int64_t> output_splits,
                  std::vector<std::int64_t> input_splits);
  void gather(const std::vector<at::Tensor>& outputs, const at::Tensor& input, int place);
  void scatter(const at::Tensor& output, const std::vector<at::Tensor>& inputs, int place);
  void barrier();

  // A header has the type and shape of a member's tensor. Returns the headers of all members. If the types
  // differ, all members throw the same error.
  std::vector<Header> headers_of_all(const at::Tensor& tensor);

 private:
  c10d::ReduceOp::RedOpType kind_of(ReduceOp op, const at::Tensor& row) const;
  // Calls the backend directly, without torch's operators. All that these operators do here is to find the
  // backend, which takes longer than a small collective over shared memory.
  c10d::Backend& backend_for(const at::Tensor& tensor) const {
    return *group_.process_group()->getBackend(tensor.device().type());
  }
  bool averages_itself(ReduceOp op, const at::Tensor& row) const {
    return op == ReduceOp::kAvg && !row.is_cuda();  // Gloo has no average
  }

  const Group& group_;
  Call call_;
};

// The types that Gloo reduces.
constexpr at::ScalarType kTypesOfGloo[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,
                                           at::kByte,  at::kBool,   at::kInt,  at::kLong};

c10d::ReduceOp::RedOpType Part::kind_of(ReduceOp op, const at::Tensor& row) const {
  using Kind = c10d::ReduceOp::RedOpType;
  const at::ScalarType type = row.scalar_type();
  const bool integers = at::isIntegralType(type, /*includeBool=*/true);
  if (backend_for(row).getBackendName() == "gloo" &&
      std::ranges::find(kTypesOfGloo, type) == std::end(kTypesOfGloo))
    refuse(fmt::format(
        "Gloo does not reduce {}; it reduces {}", c10::toString(type),
        fmt::join(kTypesOfGloo | std::views::transform([](auto each) { return c10::toString(each); }),
                  ", ")));
  switch (op) {
    // For bools, the sum is computed as the maximum, as torch's NCCL does. If bools were added as bytes, true
    // + true would be 2.
    case ReduceOp::kSum: return type == at::kBool ? Kind::MAX : Kind::SUM;
    case ReduceOp::kMin: return Kind::MIN;
    case ReduceOp::kMax: return Kind::MAX;
    case ReduceOp::kProduct: return type == at::kBool ? Kind::MIN : Kind::PRODUCT;
    case ReduceOp::kAvg:
      require(!integers, "integers have no mean");
      return averages_itself(op, row) ? Kind::SUM : Kind::AVG;
    default: break;
  }
  require(integers, "bitwise operations need integers");
  return op == ReduceOp::kBand ? Kind::BAND : op == ReduceOp::kBor ? Kind::BOR : Kind::BXOR;
}

void Part::all_reduce(at::Tensor row, ReduceOp op) {
  c10d::AllreduceOptions options;
  options.reduceOp = kind_of(op, row);
  options.asyncOp = row.is_cuda();
  std::vector<at::Tensor> tensors{row};
  if (row.numel() > 0) call_.run(row.is_cuda(), [&] { return backend_for(row).allreduce(tensors, options); });
  if (averages_itself(op, row)) row.div_(size());
}

void Part::reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op) {
  c10d::ReduceScatterOptions options;
  options.reduceOp = kind_of(op, input);
  options.asyncOp = input.is_cuda();
  if (input.numel() > 0)
    call_.run(input.is_cuda(),
              [&] { return compat::reduce_scatter_single(backend_for(input), output, input, options); });
  if (averages_itself(op, input)) output.div_(size());
}

void Part::reduce_scatter(const at::Tensor& output, const std::vector<at::Tensor>& inputs, ReduceOp op) {
  c10d::ReduceScatterOptions options;
  options.reduceOp = kind_of(op, output);
  options.asyncOp = output.is_cuda();
  std::vector<at::Tensor> outputs{output};
  std::vector<std::vector<at::Tensor>> lists{inputs};
  if (output.numel() > 0)
    call_.run(output.is_cuda(), [&] { return backend_for(output).reduce_scatter(outputs, lists, options); });
  if (averages_itself(op, output)) output.div_(size());
}

void Part::broadcast(at::Tensor bytes, int place) {
  if (bytes.numel() == 0) return;
  c10d::BroadcastOptions options;
  options.rootRank = place;
  options.asyncOp = bytes.is_cuda();
  std::vector<at::Tensor> tensors{bytes};
  call_.run(bytes.is_cuda(), [&] { return backend_for(bytes).broadcast(tensors, options); });
}

void Part::all_gather(at::Tensor output, at::Tensor input) {
  if (input.numel() == 0) return;
  c10d::AllgatherOptions options;
  options.asyncOp = input.is_cuda();
  call_.run(input.is_cuda(),
            [&] { return compat::all_gather_single(backend_for(input), output, input, options); });
}

void Part::all_to_all(at::Tensor output, at::Tensor input, std::vector<std::int64_t> output_splits,
                      std::vector<std::int64_t> input_splits) {
  c10d::AllToAllOptions options;
  options.asyncOp = input.is_cuda();
  call_.run(input.is_cuda(), [&] {
    return compat::all_to_all_single(backend_for(input), output, input, output_splits, input_splits, options);
  });
}

void Part::gather(const std::vector<at::Tensor>& outputs, const at::Tensor& input, int place) {
  c10d::GatherOptions options;
  options.rootRank = place;
  options.asyncOp = input.is_cuda();
  std::vector<std::vector<at::Tensor>> all;
  if (place == this->place()) all.push_back(outputs);
  std::vector<at::Tensor> mine{input};
  call_.run(input.is_cuda(), [&] { return backend_for(input).gather(all, mine, options); });
}

void Part::scatter(const at::Tensor& output, const std::vector<at::Tensor>& inputs, int place) {
  if (output.numel() == 0) return;
  c10d::ScatterOptions options;
  options.rootRank = place;
  options.asyncOp = output.is_cuda();
  std::vector<std::vector<at::Tensor>> all;
  if (place == this->place()) all.push_back(inputs);
  std::vector<at::Tensor> mine{output};
  call_.run(output.is_cuda(), [&] { return backend_for(output).scatter(mine, all, options); });
}

void Part::barrier() {
  c10d::BarrierOptions options;
  options.device = c10::kCPU;
  options.asyncOp = false;
  call_.run(false, [&] { return group_.process_group()->getBackend(c10::kCPU)->barrier(options); });
}

std::vector<Header> Part::headers_of_all(const at::Tensor& tensor) {
  const at::Tensor mine = at::zeros({kHeaderNumbers}, at::kLong);
  write_header(tensor, numbers_of(mine));
  const at::Tensor all = at::empty({size() * kHeaderNumbers}, at::kLong);
  all_gather(all, mine);
  std::vector<Header> headers;
  for (int each = 0; each < size(); ++each) {
    headers.emplace_back(numbers_of(all) + each * kHeaderNumbers);
    if (headers[static_cast<std::size_t>(each)].type != headers[0].type)
      refuse(fmt::format("rank {} has a tensor of {}, and rank {} one of {}", ranks()[0],
                         c10::toString(headers[0].type), ranks()[static_cast<std::size_t>(each)],
                         c10::toString(headers.back().type)));
  }
  return headers;
}

// Returns the bytes of `tensor`, followed by zeros up to a length of `bytes`.
at::Tensor padded(const at::Tensor& tensor, std::int64_t bytes) {
  const Packed packed(tensor);
  if (packed.bytes().numel() == bytes) return packed.bytes();
  at::Tensor row = at::zeros({bytes}, tensor.options().dtype(at::kByte).requires_grad(false));
  row.narrow(0, 0, packed.bytes().numel()).copy_(packed.bytes());
  return row;
}

std::int64_t most_bytes(const std::vector<Header>& headers) {
  return std::ranges::max_element(headers, {}, &Header::bytes)->bytes;
}

std::vector<std::string> strings_of(const std::vector<at::Tensor>& all) {
  std::vector<std::string> strings;
  for (const at::Tensor& bytes : all) strings.push_back(string_of(bytes));
  return strings;
}

std::string name_of(ReduceOp op) {
  constexpr const char* kNames[] = {"sum", "min", "max", "product", "avg", "band", "bor", "bxor"};
  return kNames[static_cast<std::size_t>(op)];
}

std::vector<at::Tensor> all_gather_in(Part& part, const at::Tensor& tensor) {
  part.require_usable(tensor);
  const auto headers = part.headers_of_all(tensor);
  const std::int64_t bytes = most_bytes(headers);
  const at::Tensor mine = padded(tensor, bytes);
  const at::Tensor all = at::empty({part.size() * bytes}, mine.options());
  part.all_gather(all, mine);
  std::vector<at::Tensor> tensors;
  for (const Header& header : headers)
    tensors.push_back(header.tensor_in(all, static_cast<std::int64_t>(tensors.size()) * bytes));
  return tensors;
}

std::vector<at::Tensor> gather_in(Part& part, const at::Tensor& tensor, int dst) {
  part.require_usable(tensor);
  const int place = part.place_of(dst);
  const auto headers = part.headers_of_all(tensor);
  const std::int64_t bytes = most_bytes(headers);
  const at::Tensor mine = padded(tensor, bytes);
  std::vector<at::Tensor> rows;
  if (place == part.place())
    for (int each = 0; each < part.size(); ++each) rows.push_back(at::empty({bytes}, mine.options()));
  if (bytes > 0) part.gather(rows, mine, place);
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& row : rows) tensors.push_back(headers[tensors.size()].tensor_in(row, 0));
  return tensors;
}

}  // namespace

void all_reduce(const Group& group, const at::Tensor& tensor, ReduceOp op) {
  const torch::NoGradGuard no_grad;
  Part part(group, [&] { return fmt::format("all_reduce ({}) of {}", name_of(op), shape_text(tensor)); });
  part.require_usable(tensor);
  const Packed packed(tensor);
  part.all_reduce(packed.row(), op);
  packed.unpack();
}

void broadcast(const Group& group, const at::Tensor& tensor, int src) {
  const torch::NoGradGuard no_grad;
  Part part(group, [&] { return fmt::format("broadcast of {} from rank {}", shape_text(tensor), src); });
  part.require_usable(tensor);
  const Packed packed(tensor);
  const int root = part.place_of(src);
  part.broadcast(packed.bytes(), root);
  if (part.place() != root) packed.unpack();
}

std::vector<at::Tensor> all_gather(const Group& group, const at::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  Part part(group, [&] { return fmt::format("all_gather of {}", type_text(tensor)); });
  return all_gather_in(part, tensor);
}

void all_gather_into_tensor(const Group& group, const at::Tensor& output, const at::Tensor& input) {
  const torch::NoGradGuard no_grad;
  Part part(group, [&] { return fmt::format("all_gather_into_tensor of {}", shape_text(input)); });
  part.require_usable(input);
  part.require_usable(output);
  part.require(
      output.scalar_type() == input.scalar_type() && output.numel() == part.size() * input.numel(), [&] {
        return fmt::format("the output is {}; it must have {} times the input's elements, of the same type",
                           shape_text(output), part.size());
      });
  const Packed from(input), to(output);
  part.all_gather(to.bytes(), from.bytes());
  to.unpack();
}

at::Tensor reduce_scatter(const Group& group, const std::vector<at::Tensor>& inputs, ReduceOp op) {
  const torch::NoGradGuard no_grad;
  Part part(group, [&] {
    return fmt::format("reduce_scatter ({}) of {}", name_of(op),
                       fmt::join(inputs | std::views::transform(shape_text), ", "));
  });
  part.require_one_each(inputs.size(), "inputs");
  std::vector<at::Tensor> rows;
  bool equal = true;
  for (const at::Tensor& input : inputs) {
    part.require_usable(input);
    part.require(input.scalar_type() == inputs[0].scalar_type(), "the inputs are of different types");
    equal = equal && input.sizes() == inputs[0].sizes();
    rows.push_back(Packed(input).row());
  }
  const auto place = static_cast<std::size_t>(part.place());
  if (equal) {
    const at::Tensor mine = at::empty(inputs[0].sizes(), rows[0].options());
    part.reduce_scatter(mine.view({-1}), rows, op);
    return mine;
  }
  const at::Tensor all = at::cat(rows);
  part.all_reduce(all, op);
  std::int64_t before = 0;
  for (std::size_t each = 0; each < place; ++each) before += rows[each].numel();
  return all.narrow(0, before, rows[place].numel()).view(inputs[place].sizes()).clone();
}

void reduce_scatter_tensor(const Group& group, const at::Tensor& output, const at::Tensor& input,
                           ReduceOp op) {
  const torch::NoGradGuard no_grad;
  Part part(group,
            [&] { return fmt::format("reduce_scatter_tensor ({}) of {}", name_of(op), shape_text(input)); });
  part.require_usable(input);
  part.require_usable(output);
  part.require(
      output.scalar_type() == input.scalar_type() && input.numel() == part.size() * output.numel(), [&] {
        return fmt::format("the output is {}; the input must have {} times its elements, of the same type",
                           shape_text(output), part.size());
      });
  const Packed from(input), to(output);
  part.reduce_scatter(to.row(), from.row(), op);
  to.unpack();
}

std::vector<at::Tensor> all_to_all(const Group& group, const std::vector<at::Tensor>& inputs) {
  const torch::NoGradGuard no_grad;
  Part part(group, [] { return "all_to_all"; });
  part.require_one_each(inputs.size(), "inputs");
  const at::Tensor told = at::zeros({part.size() * kHeaderNumbers}, at::kLong);
  std::vector<at::Tensor> rows;
  std::vector<std::int64_t> input_splits, output_splits;
  for (const at::Tensor& input : inputs) {
    part.require_usable(input);
    write_header(input, numbers_of(told) + static_cast<std::int64_t>(rows.size()) * kHeaderNumbers);
    rows.push_back(Packed(input).bytes());
    input_splits.push_back(rows.back().numel());
  }
  const at::Tensor heard = at::empty_like(told);
  part.all_to_all(heard, told, {}, {});
  std::vector<Header> headers;
  std::int64_t total = 0;
  for (int each = 0; each < part.size(); ++each) {
    headers.emplace_back(numbers_of(heard) + each * kHeaderNumbers);
    output_splits.push_back(headers.back().bytes);
    total += headers.back().bytes;
  }
  const at::Tensor all = at::empty({total}, rows[0].options());
  part.all_to_all(all, at::cat(rows), output_splits, input_splits);
  std::vector<at::Tensor> tensors;
  std::int64_t offset = 0;
  for (const Header& header : headers) {
    tensors.push_back(header.tensor_in(all, offset));
    offset += header.bytes;
  }
  return tensors;
}

namespace {

// A tensor is divided into parts along its first dimension. Returns the size in bytes of each part. `sizes`
// has the number of rows of each part. If `sizes` is empty, all parts are equal. Then this function returns
// an empty vector.
std::vector<std::int64_t> splits_of(const Part& part, const at::Tensor& tensor,
                                    const std::vector<std::int64_t>& sizes, const char* what) {
  part.require_usable(tensor);
  part.require(tensor.dim() > 0, [&] { return fmt::format("the {} has no dimension", what); });
  const std::int64_t rows = tensor.size(0);
  if (sizes.empty()) {
    part.require(rows % part.size() == 0, [&] {
      return fmt::format("the {} has {} rows, which cannot be divided evenly among {} members", what, rows,
                         part.size());
    });
    return {};
  }
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) sum += size;
  part.require(std::cmp_equal(sizes.size(), part.size()) && sum == rows && std::ranges::min(sizes) >= 0, [&] {
    return fmt::format("the {} has {} rows, but its parts for the {} members have {}", what, rows,
                       part.size(), fmt::join(sizes, ", "));
  });
  std::vector<std::int64_t> bytes;
  const auto row_bytes = rows == 0 ? 0 : static_cast<std::int64_t>(tensor.nbytes()) / rows;
  for (const std::int64_t size : sizes) bytes.push_back(size * row_bytes);
  return bytes;
}

}  // namespace

void all_to_all_single(const Group& group, const at::Tensor& output, const at::Tensor& input,
                       const std::vector<std::int64_t>& output_split_sizes,
                       const std::vector<std::int64_t>& input_split_sizes) {
  const torch::NoGradGuard no_grad;
  Part part(group, [&] { return fmt::format("all_to_all_single of {}", type_text(input)); });
  const auto output_splits = splits_of(part, output, output_split_sizes, "output");
  const auto input_splits = splits_of(part, input, input_split_sizes, "input");
  const Packed from(input), to(output);
  part.all_to_all(to.bytes(), from.bytes(), output_splits, input_splits);
  to.unpack();
}

std::vector<at::Tensor> gather(const Group& group, const at::Tensor& tensor, int dst) {
  const torch::NoGradGuard no_grad;
  Part part(group, [&] { return fmt::format("gather of {} to rank {}", type_text(tensor), dst); });
  return gather_in(part, tensor, dst);
}

void scatter(const Group& group, const at::Tensor& output, const std::vector<at::Tensor>& inputs, int src) {
  const torch::NoGradGuard no_grad;
  Part part(group, [&] { return fmt::format("scatter of {} from rank {}", shape_text(output), src); });
  part.require_usable(output);
  const int place = part.place_of(src);
  std::vector<at::Tensor> rows;
  if (place == part.place()) {
    part.require_one_each(inputs.size(), "inputs");
    for (const at::Tensor& input : inputs) {
      part.require_usable(input);
      part.require(input.sizes() == output.sizes() && input.scalar_type() == output.scalar_type(),
                   [&] { return fmt::format("an input is {}, unlike the output", shape_text(input)); });
      rows.push_back(Packed(input).bytes());
    }
  } else {
    part.require(inputs.empty(), "only the source rank may give inputs");
  }
  const Packed to(output);
  part.scatter(to.bytes(), rows, place);
  to.unpack();
}

void barrier(const Group& group) {
  Part(group, [] { return "barrier"; }).barrier();
}

std::vector<std::string> all_gather_object(const Group& group, const std::string& object) {
  Part part(group, [] { return "all_gather_object"; });
  return strings_of(all_gather_in(part, tensor_of(object)));
}

std::vector<std::string> gather_object(const Group& group, const std::string& object, int dst) {
  Part part(group, [&] { return fmt::format("gather_object to rank {}", dst); });
  return strings_of(gather_in(part, tensor_of(object), dst));
}

std::string broadcast_object(const Group& group, const std::string& object, int src) {
  Part part(group, [&] { return fmt::format("broadcast_object from rank {}", src); });
  const int place = part.place_of(src);
  const at::Tensor length = at::full({1}, static_cast<std::int64_t>(object.size()), at::kLong);
  part.broadcast(length, place);
  const at::Tensor bytes =
      place == part.place() ? tensor_of(object) : at::empty({length.item<std::int64_t>()}, at::kByte);
  part.broadcast(bytes, place);
  return string_of(bytes);
}

std::string scatter_object(const Group& group, const std::vector<std::string>& objects, int src) {
  Part part(group, [&] { return fmt::format("scatter_object from rank {}", src); });
  const int place = part.place_of(src);
  std::vector<at::Tensor> rows, lengths;
  if (place == part.place()) {
    part.require_one_each(objects.size(), "objects");
    std::size_t most = 0;
    for (const std::string& object : objects) most = std::max(most, object.size());
    for (const std::string& object : objects) {
      rows.push_back(padded(tensor_of(object), static_cast<std::int64_t>(most)));
      lengths.push_back(
          at::tensor({static_cast<std::int64_t>(object.size()), static_cast<std::int64_t>(most)}, at::kLong));
    }
  }
  const at::Tensor length = at::empty({2}, at::kLong);
  part.scatter(length, lengths, place);
  const at::Tensor bytes = at::empty({length[1].item<std::int64_t>()}, at::kByte);
  part.scatter(bytes, rows, place);
  return string_of(bytes.narrow(0, 0, length[0].item<std::int64_t>()));
}

}  // namespace muster
