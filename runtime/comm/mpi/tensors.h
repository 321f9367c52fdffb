// Brings tensors into the form that MPI accepts: checks them, cuts them into pieces, and copies them to
// memory that MPI can use.
//
// The functions throw c10::Error if a tensor is unsuitable.
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
// Divides the tensors into pieces of at most 4 MiB. The size of a piece is given as a number of elements of
// `element_bytes` bytes.
std::vector<Piece> cut(const Tensors& tensors, std::int64_t element_bytes);

char* bytes_of(const at::Tensor& tensor);
// Converts to int, the type of MPI's counts.
int count_of(std::int64_t count);

void require_dense(const at::Tensor& tensor);  // in any order of dimensions
void require_contiguous(const at::Tensor& tensor);
// Checks that there are `size` contiguous tensors that have the type and the size of `like`.
void require_one_each(const Tensors& tensors, int size, const at::Tensor& like);
// Returns the only tensor, or the only list of tensors. Throws if there is not exactly one.
const at::Tensor& only(const Tensors& tensors);
const Tensors& only(const std::vector<Tensors>& lists);

// True if the tensors share memory.
bool overlap(const at::Tensor& one, const at::Tensor& other);
// True if MPI accepts GPU memory.
bool sends_from_gpus();
// Each of these functions returns a function that makes the text of Operation::what(). The text consists of
// `what` and the shape of the tensor. For the second function, `way` and the rank follow. `way` is a word
// such as "to".
std::function<std::string()> said(const char* what, const at::Tensor& tensor);
std::function<std::string()> said(const char* what, const at::Tensor& tensor, const char* way, int rank);

// joined() returns one tensor with the bytes of all these tensors, one after the other. room_for() returns
// memory of the same size.
at::Tensor joined(const Tensors& tensors);
at::Tensor room_for(const Tensors& tensors);

// A buffer with one part for each member. The part is sent to the member or received from it. `counts` has
// the size of each part in bytes, and `offsets` has the place where each part begins.
struct Parts {
  std::vector<int> counts, offsets;
  void add(std::int64_t bytes);
};

// Provides memory that MPI can use. For a CPU tensor, this is the tensor's own memory. For a CUDA tensor, it
// is pinned memory. Call read() for memory that MPI reads, fill() for memory that MPI writes, and change()
// for memory that MPI reads and writes.
//
// finish() copies the results from pinned memory back to the CUDA tensors. It copies on the stream that was
// current when fill() or change() was called. So the copies begin when all earlier work on that stream has
// ended.
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
  // If `row` is defined, finish() will copy its bytes to `parts`, one part after the other.
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
