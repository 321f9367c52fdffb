// Frames: what launcher and agent exchange over a stream, before any meaning is given to the body.
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
constexpr std::uint8_t kMovesOn = 0;  // the last frame of a stream: the next comes by another, and no message
constexpr std::uint8_t kFirstToAgent = 1;        // types from here on: launcher to agent
constexpr std::uint8_t kFirstToLauncher = 64;    // agent to launcher
constexpr std::uint8_t kFirstToNeighbour = 128;  // agent to agent
constexpr std::size_t kMaxBodyBytes = std::size_t{4}
                                      << 20;  // a command line and its environment are at most 2 MiB
constexpr int kMaxDepth = 16;  // of arrays and maps within each other; nlohmann's parser recurses
constexpr NodeId kLauncher{-1};

struct FrameHeader {
  std::uint8_t type = 0;
  NodeId destination = kLauncher;
  NodeId source = kLauncher;  // who made the frame, whoever passes it on
  Term term;
  Attempt attempt;
  Sequence sequence;
};

struct Frame {
  FrameHeader header;
  Bytes body;
};

// Appends the first bytes of a frame to `out`; `body_bytes`, not more than kMaxBodyBytes, follow.
void append_header(std::string& out, const FrameHeader& header, std::size_t body_bytes);
void append_frame(std::string& out, const FrameHeader& header, std::string_view body);

// The error for a frame of another version: one line that says which side is older, and what to do. `type`:
// the frame's type, which has the same place in every version.
Error version_error(std::uint8_t version, std::uint8_t type);

// Cuts a stream of bytes into frames. Their bodies stay in the buffer they were read into; a buffer of which
// somebody keeps a body is given up to it, and another one taken.
class FrameReader {
 public:
  // Where the next bytes of the stream belong; not empty. Larger when there is much to read.
  std::span<char> room();
  // Says how many bytes were put into room(). Complete frames are appended to `frames`. After an error
  // (kCorrupt) the stream is beyond repair.
  Status filled(std::size_t bytes, std::vector<Frame>& frames);
  // room() and filled() in one, for bytes that lie elsewhere.
  Status feed(std::string_view bytes, std::vector<Frame>& frames);

 private:
  Status cut(std::vector<Frame>& frames);

  void take_buffer(std::size_t size);

  std::shared_ptr<std::vector<char>> buffer_ = std::make_shared<std::vector<char>>();
  std::size_t begin_ = 0;  // of what is not yet cut
  std::size_t end_ = 0;
  bool full_ = false;  // the last read took all the room that there was
};

// kCorrupt unless `bytes` are exactly one CBOR item of definite lengths, without tags, nested at most
// kMaxDepth deep.
Status check_cbor(std::string_view bytes);

struct CborBytes {
  std::size_t begin = 0;  // of the item, its head included
  std::string_view content;
};
// The byte string under `key` in a map that check_cbor() has seen; nothing if there is none, or the map has
// other maps or arrays in it.
std::optional<CborBytes> find_cbor_bytes(std::string_view map, std::string_view key);

}  // namespace muster::wire
