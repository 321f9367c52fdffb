// Frames: the units that launcher and agent exchange over a stream, without the meaning of their bodies.
//
// Layout, integers little-endian: u32 length of all that follows; u8 version; u8 type; u16 zero; u32
// destination node; u32 source node; u64 term; u64 attempt; u64 sequence; then the body, CBOR. Everything
// that a peer can get wrong is checked here, before a parser sees the body: length, version, nesting,
// well-formedness. No sockets; plain values; one thread at a time.
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
constexpr std::uint8_t kMovesOn = 0;       // the last frame of a stream that the sender leaves; no message
constexpr std::uint8_t kFirstToAgent = 1;  // types from here on: launcher to agent
constexpr std::uint8_t kFirstToLauncher = 64;    // agent to launcher
constexpr std::uint8_t kFirstToNeighbour = 128;  // agent to agent
constexpr std::uint8_t kJobOver = 192;  // the agent has left the job, and waits for the next one; no message
constexpr std::uint8_t kNextJob = 193;  // the words of the agent's next job (net/kept_stream.h)
constexpr std::size_t kMaxBodyBytes = std::size_t{4}
                                      << 20;  // a command line and its environment are at most 2 MiB
constexpr int kMaxDepth = 16;                 // of nested arrays and maps; nlohmann's parser is recursive
constexpr NodeId kLauncher{-1};

struct FrameHeader {
  std::uint8_t type = 0;
  NodeId destination = kLauncher;
  NodeId source = kLauncher;  // the sender that made the frame, even if another forwards it
  Term term;
  Attempt attempt;
  Sequence sequence;
};

struct Frame {
  FrameHeader header;
  Bytes body;
};

// Appends the first bytes of a frame to `out`. The caller appends the body, `body_bytes` long, at most
// kMaxBodyBytes.
void append_header(std::string& out, const FrameHeader& header, std::size_t body_bytes);
void append_frame(std::string& out, const FrameHeader& header, std::string_view body);

// Returns the error for a frame of another version: one line that says which side is older, and what to do.
// `type` is the frame's type, which is at the same place in every version.
Error version_error(std::uint8_t version, std::uint8_t type);

// Splits a stream of bytes into frames. Their bodies stay in the buffer that they were read into. While a
// body is in use, its buffer is not used again, and the reader takes another one.
class FrameReader {
 public:
  // Returns where to put the next bytes of the stream: never empty, and larger if there is much to read.
  std::span<char> room();
  // Call with the number of bytes that were put into room(). Appends complete frames to `frames`. After an
  // error (kCorrupt) the stream cannot be used any more.
  Status filled(std::size_t bytes, std::vector<Frame>& frames);
  // room() and filled() in one call, for bytes that are elsewhere.
  Status feed(std::string_view bytes, std::vector<Frame>& frames);

 private:
  Status cut(std::vector<Frame>& frames);

  void take_buffer(std::size_t size);

  std::shared_ptr<std::vector<char>> buffer_ = std::make_shared<std::vector<char>>();
  std::size_t begin_ = 0;  // of the bytes that are not yet split
  std::size_t end_ = 0;
  bool full_ = false;  // the last read filled all the room
};

// Returns kCorrupt unless `bytes` are exactly one CBOR item of definite lengths, without tags, nested at most
// kMaxDepth deep.
Status check_cbor(std::string_view bytes);

struct CborBytes {
  std::size_t begin = 0;  // of the item, including its head
  std::string_view content;
};
// Returns the byte string under `key` in a map that has passed check_cbor(). Nothing if there is none, or if
// a map or array comes before it.
std::optional<CborBytes> find_cbor_bytes(std::string_view map, std::string_view key);

}  // namespace muster::wire
