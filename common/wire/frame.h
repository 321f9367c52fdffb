// Frames: the units that launcher and agents send over a stream. codec.h says what their bodies mean.
//
// The layout of a frame is: u32 length of all that follows; u8 version; u8 type; u16 zero; u32 destination
// node; u32 source node; u64 term; u64 attempt; u64 sequence; the body in CBOR. Integers are little-endian.
// The length, the version, and the CBOR's nesting and syntax are checked here, before a parser reads the
// body. Plain values; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/wire/bytes.h"

namespace muster::wire {

constexpr std::uint8_t kVersion = 2;
constexpr std::size_t kHeaderBytes = 40;
constexpr std::uint8_t kMovesOn = 0;             // the sender's last frame on this stream; no message
constexpr std::uint8_t kFirstToAgent = 1;        // types from here on are messages from launcher to agent
constexpr std::uint8_t kFirstToLauncher = 64;    // from agent to launcher
constexpr std::uint8_t kFirstToNeighbour = 128;  // from agent to agent
constexpr std::uint8_t kJobOver = 192;  // the agent has left the job, and waits for the next one; no message
constexpr std::uint8_t kNextJob = 193;  // the words of the agent's next job (net/kept_stream.h)
constexpr std::size_t kMaxBodyBytes = std::size_t{4}
                                      << 20;  // enough for a command line and its environment, at most 2 MiB
constexpr int kMaxDepth = 16;                 // of nested arrays and maps: nlohmann's parser is recursive
constexpr NodeId kLauncher{-1};

struct FrameHeader {
  std::uint8_t type = 0;
  NodeId destination = kLauncher;
  NodeId source = kLauncher;  // the sender that made the frame, also if another forwards it
  Term term;
  Attempt attempt;
  Sequence sequence;
};

struct Frame {
  FrameHeader header;
  Bytes body;
};

// Appends the header of a frame to `out`. After that the caller must append the body. The body has
// `body_bytes` bytes, at most kMaxBodyBytes.
void append_header(std::string& out, const FrameHeader& header, std::size_t body_bytes);
void append_frame(std::string& out, const FrameHeader& header, std::string_view body);

// Returns the error for a frame of another version. The error says which side is older, and how to help.
// `type` is the type of the frame. It is at the same place in every version of the frame.
Error version_error(std::uint8_t version, std::uint8_t type);

// Splits a stream of bytes into frames. The body of a frame stays in the buffer into which it was read. The
// reader does not overwrite a buffer while a body in it is in use. It takes another buffer instead.
class FrameReader {
 public:
  // Returns the place for the next bytes of the stream. The place is never empty. It is larger if there is
  // much to read.
  std::span<char> room();
  // Call this with the number of bytes that were put into room(). The frames that are now complete are
  // appended to `frames`. After an error (kCorrupt), the stream cannot be used any more.
  Status filled(std::size_t bytes, std::vector<Frame>& frames);
  // Does the same as room() and filled() together, for bytes that are already in another place.
  Status feed(std::string_view bytes, std::vector<Frame>& frames);

 private:
  Status cut(std::vector<Frame>& frames);

  void take_buffer(std::size_t size);

  std::shared_ptr<std::vector<char>> buffer_ = std::make_shared<std::vector<char>>();
  std::size_t begin_ = 0;  // the beginning of the bytes that are not split into frames yet
  std::size_t end_ = 0;
  bool full_ = false;  // the last read filled all the room
};

// Checks that `bytes` is exactly one CBOR item. Returns kCorrupt if the item has an indefinite length, a tag
// or a float in it, or if it is nested more than kMaxDepth deep.
Status check_cbor(std::string_view bytes);

struct CborBytes {
  std::size_t begin = 0;  // where the item begins, including its head
  std::string_view content;
};
// Returns the byte string that has this key. `map` must have passed check_cbor(). Returns nothing if there is
// no such byte string, or if another map or array comes before it.
std::optional<CborBytes> find_cbor_bytes(std::string_view map, std::string_view key);

}  // namespace muster::wire
