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
// Cuts the tensors into pieces of at most 4 MiB, counted in elements of this size.
std::vector<Piece> cut(const Tensors& tensors, std::int64_t element_bytes);

char* bytes_of(const at::Tensor& tensor);
// Converts to int, the type of MPI's counts.
int count_of(std::int64_t count);

void require_dense(const at::Tensor& tensor);  // in any order of dimensions
void require_contiguous(const at::Tensor& tensor);
// Requires `size` contiguous tensors with the type and size of `like`.
void require_one_each(const Tensors& tensors, int size, const at::Tensor& like);
// Return the only tensor, or the only list; throw if there is not exactly one.
const at::Tensor& only(const Tensors& tensors);
const Tensors& only(const std::vector<Tensors>& lists);

// True if the tensors share memory.
bool overlap(const at::Tensor& one, const at::Tensor& other);
// True if MPI accepts GPU memory.
bool sends_from_gpus();
// Return functions that make the text of Operation::what(): `what` and the tensor's shape. The second text
// also has `way`, such as "to", and the rank.
std::function<std::string()> said(const char* what, const at::Tensor& tensor);
std::function<std::string()> said(const char* what, const at::Tensor& tensor, const char* way, int rank);

// joined() returns the bytes of these tensors in a row; room_for() returns memory for that row.
at::Tensor joined(const Tensors& tensors);
at::Tensor room_for(const Tensors& tensors);

// The bytes that each member sends or receives, and their offsets.
struct Parts {
  std::vector<int> counts, offsets;
  void add(std::int64_t bytes);
};

// Provides memory that MPI can use: for a CPU tensor its own, for a CUDA tensor pinned memory. MPI reads the
// memory from read(), writes the memory from fill(), and does both with the memory from change(). finish()
// copies the results back to CUDA tensors. It uses the stream that was current at fill() or change(), so the
// copies follow all earlier work there.
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
  // Makes finish() copy the bytes of `row`, if it is defined, to these parts, one after the other.
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
