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
#include "runtime/checkpoint/rank_file_writing.h"

namespace muster {

namespace {

constexpr std::string_view kOwnPrefix = "rank.";  // before names of what is the rank's own
constexpr std::uint64_t kPieceBytes = 1 << 20;    // what a thread copies at once
constexpr std::uint64_t kLargeBytes = 8 << 20;
// Tensors are copied between whole lines of the caches, from the first one to one that does not end with such
// a line.
constexpr std::uint64_t kHeadAlignment = 4096;

struct Piece {
  std::byte* to;
  const std::byte* from;
  std::uint64_t size;
};

// What lies in memory as it will in the file is copied by all of torch's threads; the rest by torch.
class Stager {
 public:
  explicit Stager(const RankFile& image) : image_(image) {}

  void fill(const Staging::Room& room) {
    add_bytes(room, 0, reinterpret_cast<const std::byte*>(image_.head.data()), image_.head.size());
    const std::uint64_t end = room.offset + room.bytes.size();
    while (next_ < image_.segments.size() && image_.segments[next_].offset < end) {
      const RankFile::Segment& segment = image_.segments[next_];
      add(room, segment);
      if (segment.offset + segment.size_bytes > end) break;
      ++next_;
      held_.reset();
    }
    // A little is copied without torch's threads, which a program may not have started yet, and stays in the
    // caches, where the writer finds it.
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
  void add(const Staging::Room& room, const RankFile::Segment& segment) {
    const at::Tensor& tensor = segment.tensor;
    if (segment.size_bytes == 0) return;
    if (tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_neg() && !tensor.is_conj()) {
      add_bytes(room, segment.offset, static_cast<const std::byte*>(tensor.const_data_ptr()),
                segment.size_bytes);
    } else {
      copy_elements(room, segment);
    }
  }

  // The part of these bytes of the file that lies in the room.
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

  void copy_elements(const Staging::Room& room, const RankFile::Segment& segment) {
    const at::Tensor& tensor = segment.tensor;
    const auto element = static_cast<std::uint64_t>(tensor.element_size());
    const std::uint64_t begin = std::max(segment.offset, room.offset);
    const std::uint64_t end = std::min(segment.offset + segment.size_bytes, room.offset + room.bytes.size());
    if (begin >= end) return;
    std::optional<c10::StreamGuard> guard;
    if (!tensor.is_cpu()) guard.emplace(stream_of(tensor.device()));
    const bool whole = end - begin == segment.size_bytes;
    // Rooms begin and end at elements, because tensors lie in the file by falling size of these.
    if (!whole && !held_) held_ = tensor.detach().contiguous().view(-1);
    const auto first = static_cast<std::int64_t>((begin - segment.offset) / element);
    const auto past = static_cast<std::int64_t>((end - segment.offset) / element);
    const at::Tensor from = whole ? tensor.detach() : held_->slice(0, first, past);
    torch::from_blob(room.bytes.data() + (begin - room.offset), from.sizes(),
                     from.options().device(at::kCPU).requires_grad(false))
        .copy_(from, /*non_blocking=*/true);
  }

  // Waits for what has been computed so far.
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

  const RankFile& image_;
  std::size_t next_ = 0;            // the first segment that has not been copied to its end
  std::optional<at::Tensor> held_;  // its elements in a row
  std::vector<Piece> pieces_;
  std::optional<c10::Stream> stream_;
};

// Whether each of these has a bit of its exponent that is 0.
template <class Bits>
bool all_finite(const std::byte* bytes, std::size_t size, Bits exponent) {
  const auto* const values = reinterpret_cast<const Bits*>(bytes);
  bool finite = true;  // without a branch, so that many are looked at at once
  for (std::size_t i = 0; i < size / sizeof(Bits); ++i) finite &= (values[i] & exponent) != exponent;
  return finite;
}

// Of a type that training does not use for parameters: true.
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
  image.head = std::move(head->text);
  image.size_bytes = head->file_bytes;
  for (const HeaderTensor& placed : tensors) {
    const auto& [name, tensor] = saved.at(placed.name);
    const bool own = tensor->kind == SavedState::Kind::kOwn;
    image.segments.push_back({.name = *name,
                              .tensor = tensor->tensor,
                              .offset = placed.begin_bytes,
                              .size_bytes = placed.size_bytes,
                              .type = tensor->tensor.scalar_type(),
                              .finite = tensor->finite});
    Contents& contents = own ? image.contents.own : image.contents.shared;
    contents.tensors[*name] = {
        .dtype = placed.dtype,
        .shape = tensor->slice.shape,
        .parts = {{.file = 0,
                   .offset_bytes = placed.begin_bytes,
                   .slice = {.offsets = tensor->slice.offsets, .sizes = placed.shape}}}};
  }
  for (const auto& [key, value] : state.values) {
    if (value.kind == SavedState::Kind::kOwn)
      image.contents.own.values[key.second] = value.text;
    else if (share.values.contains(key.second))
      image.contents.shared.values[key.second] = value.text;
  }
  image.contents.files = {{.name = rank_file_name(rank), .size_bytes = image.size_bytes}};
  return image;
}

void stage_rank_file(RankFile& image, Staging& staging) {
  Stager stager(image);
  for (auto room = staging.wait_for_room(); !room.bytes.empty(); room = staging.wait_for_room()) {
    stager.fill(room);
    staging.fill(room.bytes.size());
  }
  for (RankFile::Segment& segment : image.segments) segment.tensor.reset();
}

Status check_all_finite(const RankFile& image, std::uint64_t offset, std::span<const std::byte> bytes) {
  const auto end_of = [](const RankFile::Segment& segment) { return segment.offset + segment.size_bytes; };
  const std::uint64_t past = offset + bytes.size();
  auto segment = std::ranges::upper_bound(image.segments, offset, {}, end_of);
  for (; segment != image.segments.end() && segment->offset < past; ++segment) {
    const std::uint64_t from = std::max(segment->offset, offset);
    const std::uint64_t to = std::min(end_of(*segment), past);
    if (segment->finite && from < to && !is_finite(segment->type, bytes.data() + (from - offset), to - from))
      return failure(ErrorCode::kCorrupt, "{} has a NaN or an infinity (.check_finite = false allows it)",
                     segment->name);
  }
  return {};
}

}  // namespace muster
