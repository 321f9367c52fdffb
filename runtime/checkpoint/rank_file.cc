#include "runtime/checkpoint/rank_file.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cstring>
#include <optional>
#include <torch/torch.h>

#include "common/base/copy_past_caches.h"
#include "common/checkpoint/directory.h"
#include "common/checkpoint/safetensors_header.h"
#include "runtime/checkpoint/dtype.h"

namespace muster {

namespace {

constexpr std::string_view kOwnPrefix = "rank.";  // before the names of a rank's own tensors
constexpr std::uint64_t kPieceBytes = 1 << 20;    // the bytes that a thread copies at once
constexpr std::uint64_t kLargeBytes = 8 << 20;
// The tensors begin at a page boundary of the file. So copies that do not use the caches write whole cache
// lines.
constexpr std::uint64_t kHeadAlignment = 4096;

struct Piece {
  std::byte* to;
  const std::byte* from;
  std::uint64_t size;
};

// Copies the file from the source into the staging memory. It fills the memory room by room. A room is a free
// part of the memory.
//
// If a tensor is on the CPU and contiguous, its bytes in memory are the same as those in the file. So torch's
// threads copy these bytes. All other tensors are copied by Tensor::copy_(), which also makes them
// contiguous, or copies them from a GPU.
//
// Invariants: all segments before the segment number `next_` have been copied. When fill() returns, all bytes
// of the room are there, also those from a GPU.
class Stager {
 public:
  explicit Stager(const RankFileSource& source) : source_(source) {}

  void fill(const Staging::Room& room) {
    add_bytes(room, 0, reinterpret_cast<const std::byte*>(source_.head.data()), source_.head.size());
    const std::uint64_t end = room.offset + room.bytes.size();
    while (next_ < source_.segments.size() && source_.segments[next_].offset < end) {
      const RankFileSource::Segment& segment = source_.segments[next_];
      add(room, segment);
      if (segment.offset + segment.size_bytes > end) break;
      ++next_;
      held_.reset();
    }
    // If the room is small, this thread copies all of it, without the help of other threads. If the program
    // has not used torch's threads yet, they would first have to be started, which takes longer than the
    // copy. The copied bytes stay in the caches, where the writing thread finds them.
    const bool is_large = room.bytes.size() >= kLargeBytes;
    const auto copy = [&](std::int64_t begin, std::int64_t past) {
      for (std::int64_t i = begin; i < past; ++i) {
        const Piece& piece = pieces_[static_cast<std::size_t>(i)];
        if (is_large)
          copy_past_caches(piece.to, piece.from, piece.size);
        else
          std::memcpy(piece.to, piece.from, piece.size);
      }
    };
    const auto count = std::ssize(pieces_);
    if (is_large)
      at::parallel_for(0, count, 1, copy);
    else
      copy(0, count);
    pieces_.clear();
    if (stream_) stream_->synchronize();
  }

 private:
  void add(const Staging::Room& room, const RankFileSource::Segment& segment) {
    const at::Tensor& tensor = segment.tensor;
    if (segment.size_bytes == 0) return;
    if (tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_neg() && !tensor.is_conj()) {
      add_bytes(room, segment.offset, static_cast<const std::byte*>(tensor.const_data_ptr()),
                segment.size_bytes);
    } else {
      copy_elements(room, segment);
    }
  }

  // `bytes` is data that will be at `offset` in the file. `room` has the memory for a part of the file.
  // add_bytes() finds the part of the data that belongs in this memory, and adds it to `pieces_`.
  void add_bytes(const Staging::Room& room, std::uint64_t offset, const std::byte* bytes,
                 std::uint64_t size) {
    std::uint64_t at = std::max(offset, room.offset);
    const std::uint64_t end = std::min(offset + size, room.offset + room.bytes.size());
    while (at < end) {
      const std::uint64_t count = std::min(end - at, kPieceBytes);
      pieces_.push_back({room.bytes.data() + (at - room.offset), bytes + (at - offset), count});
      at += count;
    }
  }

  void copy_elements(const Staging::Room& room, const RankFileSource::Segment& segment) {
    const at::Tensor& tensor = segment.tensor;
    const auto element = static_cast<std::uint64_t>(tensor.element_size());
    const std::uint64_t begin = std::max(segment.offset, room.offset);
    const std::uint64_t end = std::min(segment.offset + segment.size_bytes, room.offset + room.bytes.size());
    if (begin >= end) return;
    std::optional<c10::StreamGuard> guard;
    if (!tensor.is_cpu()) guard.emplace(stream_of(tensor.device()));
    const bool whole = end - begin == segment.size_bytes;
    // A room never ends in the middle of an element. The reason is that the tensors with larger elements come
    // first in the file.
    if (!whole && !held_) held_ = tensor.detach().contiguous().view(-1);
    const auto first = static_cast<std::int64_t>((begin - segment.offset) / element);
    const auto past = static_cast<std::int64_t>((end - segment.offset) / element);
    const at::Tensor from = whole ? tensor.detach() : held_->slice(0, first, past);
    torch::from_blob(room.bytes.data() + (begin - room.offset), from.sizes(),
                     from.options().device(at::kCPU).requires_grad(false))
        .copy_(from, /*non_blocking=*/true);
  }

  // Returns the stream on which this object copies. When stream_of() chooses a stream, the copies on it wait
  // for all work that the device's current stream has at that time.
  c10::Stream stream_of(c10::Device device) {
    if (!stream_ || stream_->device() != device) {
      if (stream_) stream_->synchronize();
      const c10::impl::VirtualGuardImpl functions(device.type());
      stream_ = functions.getStreamFromGlobalPool(device);
      c10::Event computed(device.type());
      computed.record(functions.getStream(device));
      computed.block(*stream_);
    }
    return *stream_;
  }

  const RankFileSource& source_;
  std::size_t next_ = 0;            // the first segment that has not been copied to its end
  std::optional<at::Tensor> held_;  // a contiguous copy of that segment, if it spans several rooms
  std::vector<Piece> pieces_;
  std::optional<c10::Stream> stream_;
};

// Returns whether all values are finite. `exponent` has the bits of a value's exponent. A value is finite if
// one of these bits is 0.
template <class Bits>
bool all_finite(const std::byte* bytes, std::size_t size, Bits exponent) {
  const auto* const values = reinterpret_cast<const Bits*>(bytes);
  bool finite = true;  // `&=` has no branch, so the compiler can vectorize the loop
  for (std::size_t i = 0; i < size / sizeof(Bits); ++i) finite &= (values[i] & exponent) != exponent;
  return finite;
}

// Returns whether all values are finite. It checks only the types that training uses for parameters. For all
// other types, it returns true.
bool is_finite(at::ScalarType type, const std::byte* bytes, std::size_t size) {
  switch (type) {
    case at::kHalf: return all_finite<std::uint16_t>(bytes, size, 0x7C00);
    case at::kBFloat16: return all_finite<std::uint16_t>(bytes, size, 0x7F80);
    case at::kComplexFloat:
    case at::kFloat: return all_finite<std::uint32_t>(bytes, size, 0x7F800000);
    case at::kDouble: return all_finite<std::uint64_t>(bytes, size, 0x7FF0000000000000);
    default: return true;
  }
}

}  // namespace

Expected<RankFile> lay_out_rank_file(const SavedState& state, const SaveAgreement::Share& share, int rank) {
  std::vector<HeaderTensor> tensors;
  std::map<std::string, std::pair<const std::string*, const SavedState::Tensor*>> saved;
  for (const auto& [key, tensor] : state.tensors) {
    const bool own = tensor.kind == SavedState::Kind::kOwn;
    if (!own && !share.tensors.contains(key.second)) continue;
    const auto dtype = dtype_of(tensor.tensor.scalar_type());
    if (!dtype)
      return failure(ErrorCode::kInvalidArgument, "tensor {} has the type {}, which safetensors cannot hold",
                     key.second, c10::toString(tensor.tensor.scalar_type()));
    const Slice slice{.offsets = tensor.slice.offsets, .sizes = tensor.tensor.sizes().vec()};
    const std::string name =
        own ? std::string(kOwnPrefix) + key.second : part_name(key.second, tensor.slice.shape, slice);
    tensors.push_back({.name = name, .dtype = *dtype, .shape = slice.sizes});
    saved.emplace(name, std::pair(&key.second, &tensor));
  }
  auto head = lay_out(tensors, {{"format", "pt"}}, kHeadAlignment);
  if (!head) return std::unexpected(head.error());
  RankFile image;
  image.source.head = std::move(head->text);
  image.layout.size_bytes = head->file_bytes;
  RankContents& of_file = image.layout.contents;
  for (const HeaderTensor& placed : tensors) {
    const auto& [name, tensor] = saved.at(placed.name);
    const bool own = tensor->kind == SavedState::Kind::kOwn;
    image.source.segments.push_back(
        {.tensor = tensor->tensor, .offset = placed.begin_bytes, .size_bytes = placed.size_bytes});
    if (tensor->finite)
      image.layout.finite.push_back({.name = *name,
                                     .offset = placed.begin_bytes,
                                     .size_bytes = placed.size_bytes,
                                     .type = tensor->tensor.scalar_type()});
    Contents& contents = own ? of_file.own : of_file.shared;
    contents.tensors[*name] = {
        .dtype = placed.dtype,
        .shape = tensor->slice.shape,
        .parts = {{.file = 0,
                   .offset_bytes = placed.begin_bytes,
                   .slice = {.offsets = tensor->slice.offsets, .sizes = placed.shape}}}};
  }
  for (const auto& [key, value] : state.values) {
    if (value.kind == SavedState::Kind::kOwn)
      of_file.own.values[key.second] = value.text;
    else if (share.values.contains(key.second))
      of_file.shared.values[key.second] = value.text;
  }
  of_file.files = {{.name = rank_file_name(rank), .size_bytes = image.layout.size_bytes}};
  return image;
}

void stage_rank_file(RankFileSource& source, Staging& staging) {
  Stager stager(source);
  for (auto room = staging.wait_for_room(); !room.bytes.empty(); room = staging.wait_for_room()) {
    stager.fill(room);
    staging.fill(room.bytes.size());
  }
  for (RankFileSource::Segment& segment : source.segments) segment.tensor.reset();
}

Status check_all_finite(const RankFileLayout& layout, std::uint64_t offset,
                        std::span<const std::byte> bytes) {
  const auto end_of = [](const RankFileLayout::Range& range) { return range.offset + range.size_bytes; };
  const std::uint64_t past = offset + bytes.size();
  auto range = std::ranges::upper_bound(layout.finite, offset, {}, end_of);
  for (; range != layout.finite.end() && range->offset < past; ++range) {
    const std::uint64_t from = std::max(range->offset, offset);
    const std::uint64_t to = std::min(end_of(*range), past);
    if (from < to && !is_finite(range->type, bytes.data() + (from - offset), to - from))
      return failure(ErrorCode::kCorrupt, "{} has a NaN or an infinity (.check_finite = false allows it)",
                     range->name);
  }
  return {};
}

}  // namespace muster
