#include "common/wire/frame.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace muster::wire {

namespace {

constexpr std::size_t kMinRoomBytes = std::size_t{8} << 10;
constexpr std::size_t kUsualBytes = std::size_t{256} << 10;  // of the buffer with much traffic

template <class Number>
void put(std::string& out, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    out.push_back(static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i)));
  }
}

template <class Number>
Number get(std::string_view bytes, std::size_t at) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    number |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return static_cast<Number>(number);
}

// The head of a CBOR item: its major type and its argument (a value, a length, or a count).
struct Head {
  int major;
  int information;
  std::uint64_t argument;
};

Expected<Head> read_head(std::string_view& bytes) {
  if (bytes.empty()) return failure(ErrorCode::kCorrupt, "CBOR ends in the middle of an item");
  const auto first = static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(1);
  Head head{first >> 5, first & 31, static_cast<std::uint64_t>(first & 31)};
  if (head.information < 24) return head;
  if (head.information > 27)
    return failure(ErrorCode::kCorrupt, "CBOR item of indefinite or reserved length");
  const std::size_t size = std::size_t{1} << (head.information - 24);
  if (bytes.size() < size) return failure(ErrorCode::kCorrupt, "CBOR ends in the middle of a number");
  head.argument = 0;
  for (std::size_t i = 0; i < size; ++i)
    head.argument = head.argument << 8 | static_cast<unsigned char>(bytes[i]);
  bytes.remove_prefix(size);
  return head;
}

}  // namespace

void append_header(std::string& out, const FrameHeader& header, std::size_t body_bytes) {
  CHECK(body_bytes <= kMaxBodyBytes, "type {}, {} bytes", header.type, body_bytes);
  put(out, static_cast<std::uint32_t>(kHeaderBytes - 4 + body_bytes));
  put(out, kVersion);
  put(out, header.type);
  put(out, std::uint16_t{0});
  put(out, static_cast<std::uint32_t>(header.destination.value()));
  put(out, static_cast<std::uint32_t>(header.source.value()));
  put(out, header.term.value());
  put(out, header.attempt.value());
  put(out, header.sequence.value());
}

void append_frame(std::string& out, const FrameHeader& header, std::string_view body) {
  append_header(out, header, body.size());
  out.append(body);
}

Error version_error(std::uint8_t version, std::uint8_t type) {
  const bool to_launcher = type >= kFirstToLauncher;
  const std::string_view theirs = to_launcher ? "agent" : "launcher";
  const std::string_view ours = to_launcher ? "launcher" : "agent";
  return {ErrorCode::kCorrupt,
          fmt::format("the {} is {} than this {} (it speaks version {} of the protocol, "
                      "not {}): install the same Muster on all nodes",
                      theirs, version < kVersion ? "older" : "newer", ours, version, kVersion)};
}

std::span<char> FrameReader::room() {
  const bool kept = buffer_.use_count() > 1;
  if (begin_ == end_ && !kept) begin_ = end_ = 0;
  const std::size_t size = buffer_->size();
  if (full_ && size < kUsualBytes) {
    take_buffer(2 * size);
  } else if (end_ + kMinRoomBytes > size) {
    // The bytes that are left are the beginning of a frame. The frame may be larger than the buffer.
    const bool small = end_ - begin_ + kMinRoomBytes > size;
    take_buffer(small ? std::max(kMinRoomBytes, 2 * size) : size);
  }
  return std::span(*buffer_).subspan(end_);
}

// Moves the bytes that have not been split yet. They go to the beginning of a buffer of `size` bytes.
void FrameReader::take_buffer(std::size_t size) {
  const bool reused = size == buffer_->size() && buffer_.use_count() == 1;
  const auto old = buffer_;
  if (!reused) buffer_ = std::make_shared<std::vector<char>>(size);
  std::copy(old->data() + begin_, old->data() + end_, buffer_->data());
  end_ -= std::exchange(begin_, 0);
  full_ = false;
}

Status FrameReader::filled(std::size_t bytes, std::vector<Frame>& frames) {
  CHECK(bytes <= buffer_->size() - end_, "{} of {}", bytes, buffer_->size() - end_);
  end_ += bytes;
  full_ = end_ == buffer_->size();
  return cut(frames);
}

Status FrameReader::feed(std::string_view bytes, std::vector<Frame>& frames) {
  while (!bytes.empty()) {
    const std::span<char> place = room();
    const std::string_view part = bytes.substr(0, place.size());
    std::ranges::copy(part, place.begin());
    bytes.remove_prefix(part.size());
    if (Status status = filled(part.size(), frames); !status) return status;
  }
  return {};
}

Status FrameReader::cut(std::vector<Frame>& frames) {
  std::string_view view(buffer_->data() + begin_, end_ - begin_);
  while (view.size() >= 4) {
    const std::size_t length = get<std::uint32_t>(view, 0);
    // The version is checked before the whole frame has arrived, so that a peer of another version is refused
    // at once. Only the first six bytes are needed for this.
    const bool too_long = length > kHeaderBytes - 4 + kMaxBodyBytes;
    if (!too_long && view.size() < 6) break;
    if (!too_long && get<std::uint8_t>(view, 4) != kVersion)
      return std::unexpected(version_error(get<std::uint8_t>(view, 4), get<std::uint8_t>(view, 5)));
    if (too_long || length < kHeaderBytes - 4) {
      return failure(ErrorCode::kCorrupt, "frame of {} bytes (allowed: {} to {})", length, kHeaderBytes - 4,
                     kHeaderBytes - 4 + kMaxBodyBytes);
    }
    if (view.size() < length + 4) break;
    Frame frame;
    frame.header = {get<std::uint8_t>(view, 5),
                    NodeId(static_cast<std::int32_t>(get<std::uint32_t>(view, 8))),
                    NodeId(static_cast<std::int32_t>(get<std::uint32_t>(view, 12))),
                    Term(get<std::uint64_t>(view, 16)),
                    Attempt(get<std::uint64_t>(view, 24)),
                    Sequence(get<std::uint64_t>(view, 32))};
    frame.body = Bytes(buffer_, view.substr(kHeaderBytes, length + 4 - kHeaderBytes));
    if (Status valid = check_cbor(frame.body.view()); !valid) return valid;
    frames.push_back(std::move(frame));
    view.remove_prefix(length + 4);
    begin_ = end_ - view.size();
  }
  return {};
}

Status check_cbor(std::string_view bytes) {
  // For each depth, the number of items that are still to come. This is an array, because with recursion deep
  // nesting could exhaust the thread's stack.
  std::array<std::uint64_t, kMaxDepth + 1> left{1};
  int depth = 0;
  for (;;) {
    while (depth > 0 && left[static_cast<std::size_t>(depth)] == 0) --depth;
    if (left[static_cast<std::size_t>(depth)] == 0) break;
    --left[static_cast<std::size_t>(depth)];
    auto head = read_head(bytes);
    if (!head) return std::unexpected(head.error());
    switch (head->major) {
      case 0:
      case 1: break;
      case 2:
      case 3:
        if (head->argument > bytes.size())
          return failure(ErrorCode::kCorrupt, "CBOR string longer than its frame");
        bytes.remove_prefix(head->argument);
        break;
      case 4:
      case 5:
        // An element takes at least one byte, so a count above the number of bytes is wrong. It is refused
        // here, because a parser would reserve memory for so many elements.
        if (head->argument > bytes.size())
          return failure(ErrorCode::kCorrupt, "CBOR array or map longer than its frame");
        if (++depth > kMaxDepth) return failure(ErrorCode::kCorrupt, "CBOR nested deeper than {}", kMaxDepth);
        left[static_cast<std::size_t>(depth)] = head->major == 5 ? 2 * head->argument : head->argument;
        break;
      case 6: return failure(ErrorCode::kCorrupt, "CBOR tags are not used here");
      default:
        // The only simple values that are allowed are false, true and null. Messages have no floats, because
        // converting a float such as 1e300 to a whole number is undefined.
        if (head->information < 20 || head->information > 22) {
          return failure(ErrorCode::kCorrupt, "CBOR simple value or float {} is not used here",
                         head->argument);
        }
    }
  }
  if (!bytes.empty()) return failure(ErrorCode::kCorrupt, "{} bytes after the CBOR item", bytes.size());
  return {};
}

std::optional<CborBytes> find_cbor_bytes(std::string_view map, std::string_view key) {
  const char* const whole = map.data();
  const auto head = read_head(map);
  if (!head || head->major != 5) return std::nullopt;
  bool wanted = false;
  for (std::uint64_t left = 2 * head->argument; left > 0; --left) {
    const auto begin = static_cast<std::size_t>(map.data() - whole);
    const auto item = read_head(map);
    if (!item || item->major == 4 || item->major == 5) return std::nullopt;
    if (item->major != 2 && item->major != 3) continue;
    const std::string_view text = map.substr(0, item->argument);
    map.remove_prefix(text.size());
    const bool is_key = left % 2 == 0;
    if (!is_key && wanted && item->major == 2) return CborBytes{begin, text};
    wanted = is_key && text == key;
  }
  return std::nullopt;
}

}  // namespace muster::wire
