// An authenticated peer sends any bytes: frames are cut, judged and decoded, and a decoded message can be
// passed on.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/wire/codec.h"
#include "tests/fuzz/input.h"

namespace muster {
namespace {

struct Cut {
  std::vector<wire::Frame> frames;
  bool accepted = true;
};

Cut cut(std::string_view stream, std::size_t piece) {
  Cut result;
  wire::FrameReader reader;
  while (!stream.empty() && result.accepted) {
    const std::size_t now = std::min(piece, stream.size());
    result.accepted = reader.feed(stream.substr(0, now), result.frames).has_value();
    stream.remove_prefix(now);
  }
  return result;
}

// A decoded message must stay the same when it is encoded and decoded again.
template <class Message>
void travel_again(const wire::FrameHeader& header, const Message& message,
                  Expected<Message> (*decode)(wire::Frame)) {
  const std::string bytes = wire::encode(header, message);
  const Cut again = cut(bytes, bytes.size());
  CHECK(again.accepted && again.frames.size() == 1, "{} frames", again.frames.size());
  const auto decoded = decode(again.frames[0]);
  CHECK(decoded.has_value(), "{}", decoded.error().message());
  CHECK(wire::encode(header, *decoded) == bytes, "type {}", header.type);
}

void hear(const std::vector<wire::Frame>& frames) {
  wire::Dispatcher dispatcher{wire::kLauncher, NodeId(0)};
  dispatcher.advance_to(Attempt(2));
  std::pair<Term, Sequence> newest;
  for (const wire::Frame& frame : frames) {
    if (dispatcher.judge(frame.header) == wire::Dispatcher::Result::kDeliver) {
      const std::pair now(frame.header.term, frame.header.sequence);
      CHECK(now > newest);
      newest = now;
    }
    if (const auto message = wire::decode_for_agent(frame))
      travel_again(frame.header, *message, &wire::decode_for_agent);
    if (const auto message = wire::decode_for_launcher(frame))
      travel_again(frame.header, *message, &wire::decode_for_launcher);
    if (const auto message = wire::decode_for_neighbour(frame))
      travel_again(frame.header, *message, &wire::decode_for_neighbour);
  }
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  // The input is a stream, fed in pieces of `piece` bytes; or, with 0, the body of one frame of the right
  // length, which mutations of a length would hardly produce.
  const std::size_t piece = input.byte();
  if (piece == 0) {
    wire::FrameHeader header;
    header.type = static_cast<std::uint8_t>(input.byte());
    std::string stream;
    wire::append_frame(stream, header, input.rest());
    hear(cut(stream, stream.size()).frames);
    return 0;
  }
  const std::string_view stream = input.rest();
  const Cut pieces = cut(stream, piece);
  const Cut whole = cut(stream, stream.size());
  CHECK(pieces.accepted == whole.accepted && pieces.frames.size() == whole.frames.size(), "{} and {} frames",
        pieces.frames.size(), whole.frames.size());
  hear(whole.frames);
  return 0;
}
