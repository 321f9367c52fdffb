#include "runtime/comm/mpi/tensors.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <mpi.h>
// Must follow mpi.h.
#include <mpi-ext.h>

#include "runtime/comm/packed.h"

namespace muster::mpi {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;

}  // namespace

char* bytes_of(const at::Tensor& tensor) {
  return static_cast<char*>(tensor.mutable_data_ptr());
}

int count_of(std::int64_t count) {
  TORCH_CHECK(count <= std::numeric_limits<int>::max(), "MPI takes at most 2^31 - 1 elements of a rank, not ",
              count);
  return static_cast<int>(count);
}

std::vector<Piece> cut(const Tensors& tensors, std::int64_t element_bytes) {
  std::vector<Piece> pieces;
  for (const at::Tensor& each : tensors) {
    const auto most = kPieceBytes / element_bytes;
    const auto count = static_cast<std::int64_t>(each.nbytes()) / element_bytes;
    for (std::int64_t at = 0; at < count; at += most)
      pieces.push_back({bytes_of(each) + at * element_bytes, static_cast<int>(std::min(most, count - at))});
  }
  return pieces;
}

void require_tensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined() && tensor.layout() == at::kStrided, "MPI takes dense tensors only");
}
void require_dense(const at::Tensor& tensor) {
  require_tensor(tensor);
  TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "the tensor must be dense, without gaps");
}
void require_contiguous(const at::Tensor& tensor) {
  require_tensor(tensor);
  TORCH_CHECK(tensor.is_contiguous(), "the tensor must be contiguous");
}

const at::Tensor& only(const Tensors& tensors) {
  TORCH_CHECK(tensors.size() == 1, "one tensor is expected, not ", tensors.size());
  return tensors.front();
}
const Tensors& only(const std::vector<Tensors>& lists) {
  TORCH_CHECK(lists.size() == 1, "one list of tensors is expected, not ", lists.size());
  return lists.front();
}

void require_same(const at::Tensor& tensor, const at::Tensor& like) {
  TORCH_CHECK(tensor.scalar_type() == like.scalar_type() && tensor.numel() == like.numel(),
              "tensors of one type and size are expected, not ", shape_text(tensor), " and ",
              shape_text(like));
}
void require_one_each(const Tensors& tensors, int size, const at::Tensor& like) {
  TORCH_CHECK(std::cmp_equal(tensors.size(), size), size, " tensors are expected, not ", tensors.size());
  for (const at::Tensor& each : tensors) {
    require_contiguous(each);
    require_same(each, like);
  }
}

std::int64_t bytes_in(const Tensors& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& each : tensors) bytes += static_cast<std::int64_t>(each.nbytes());
  return bytes;
}

void Parts::add(std::int64_t bytes) {
  offsets.push_back(counts.empty() ? 0 : count_of(std::int64_t{offsets.back()} + counts.back()));
  counts.push_back(count_of(bytes));
}

bool overlap(const at::Tensor& one, const at::Tensor& other) {
  const auto* const begin = static_cast<const char*>(one.const_data_ptr());
  const auto* const others = static_cast<const char*>(other.const_data_ptr());
  return begin < others + other.nbytes() && others < begin + one.nbytes();
}

std::function<std::string()> said(const char* what, const at::Tensor& tensor) {
  return [=] { return fmt::format("{} {}", what, shape_text(tensor)); };
}
std::function<std::string()> said(const char* what, const at::Tensor& tensor, const char* way, int rank) {
  return [=] { return fmt::format("{} {} {} rank {}", what, shape_text(tensor), way, rank); };
}

bool sends_from_gpus() {
#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

at::Tensor room_for(const Tensors& tensors) {
  return at::empty({bytes_in(tensors)}, at::kByte);
}

at::Tensor joined(const Tensors& tensors) {
  const at::Tensor row = room_for(tensors);
  char* to = bytes_of(row);
  for (const at::Tensor& each : tensors) {
    std::memcpy(to, bytes_of(each), each.nbytes());
    to += each.nbytes();
  }
  return row;
}

void Staging::finish() const {
  if (row_.defined()) {
    const char* from = bytes_of(row_);
    for (const at::Tensor& part : parts_) {
      std::memcpy(bytes_of(part), from, part.nbytes());
      from += part.nbytes();
    }
  }
  for (const Copy& each : back_) {
    const c10::StreamGuard on(each.stream);
    each.device.copy_(each.host);
  }
}

}  // namespace muster::mpi
