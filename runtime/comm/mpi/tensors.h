// Tensors as MPI takes them: which ones, in which pieces, and where they lie in memory that it can use.
//
// What is refused throws c10::Error.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace muster::mpi {

using Tensors = std::vector<at::Tensor>;

struct Piece {
  char* data = nullptr;
  int count = 0;
};
// In elements of this size; each piece has 4 MiB at most.
std::vector<Piece> cut(const Tensors& tensors, std::int64_t element_bytes);

char* bytes_of(const at::Tensor& tensor);
// As MPI counts.
int count_of(std::int64_t count);

void require_dense(const at::Tensor& tensor);  // in any order of dimensions
void require_contiguous(const at::Tensor& tensor);
// As many contiguous tensors, of the type and size of this one.
void require_one_each(const Tensors& tensors, int size, const at::Tensor& like);
// The one tensor, or the one list, that is given.
const at::Tensor& only(const Tensors& tensors);
const Tensors& only(const std::vector<Tensors>& lists);

// Whether some of their memory is the same.
bool overlap(const at::Tensor& one, const at::Tensor& other);
// Whether MPI takes the memory of GPUs.
bool sends_from_gpus();
// Operation::what() of a call on this tensor, and with this rank.
std::function<std::string()> said(const char* what, const at::Tensor& tensor);
std::function<std::string()> said(const char* what, const at::Tensor& tensor, const char* way, int rank);

// A row of bytes with these in it, one after the other; room for such a row.
at::Tensor joined(const Tensors& tensors);
at::Tensor room_for(const Tensors& tensors);

// Bytes that each member sends or gets, and where they lie.
struct Parts {
  std::vector<int> counts, offsets;
  void add(std::int64_t bytes);
};

// Tensors of a GPU, in memory that MPI can use; others as they are. What is filled there is copied back at
// the end, on the stream that was current when it was asked for: after what had been launched there by then.
class Staging {
 public:
  at::Tensor read(const at::Tensor& tensor) {
    if (tensor.is_cpu()) return tensor;
    return host_of(tensor).copy_(tensor);
  }
  at::Tensor fill(const at::Tensor& tensor) {
    if (tensor.is_cpu()) return tensor;
    const c10::Stream stream = c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device());
    return back_.emplace_back(tensor, host_of(tensor), stream).host;
  }
  at::Tensor change(const at::Tensor& tensor) {
    return fill(tensor).is_same(tensor) ? tensor : back_.back().host.copy_(tensor);
  }
  // Whose parts lie one after the other in `row`, if that is defined.
  void spread(const at::Tensor& row, const std::vector<at::Tensor>& parts) {
    row_ = row;
    parts_ = parts;
  }
  void finish() const;

 private:
  static at::Tensor host_of(const at::Tensor& tensor) {
    return at::empty_like(tensor, tensor.options().device(at::kCPU).pinned_memory(true));
  }
  struct Copy {
    at::Tensor device, host;
    c10::Stream stream;
  };
  std::vector<Copy> back_;
  at::Tensor row_;
  std::vector<at::Tensor> parts_;
};

}  // namespace muster::mpi
