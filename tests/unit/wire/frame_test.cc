#include "common/wire/frame.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>

namespace muster::wire {
namespace {

using nlohmann::json;

std::string cbor(const json& value) {
  std::string bytes;
  json::to_cbor(value, bytes);
  return bytes;
}

std::string some_frame(std::string_view body) {
  std::string bytes;
  append_frame(bytes, {64, NodeId(7), NodeId(8), Term(2), Attempt(3), Sequence(4)}, body);
  return bytes;
}

TEST(Frame, HeaderAndBodyArriveUnchanged) {
  const std::string body = cbor({{"a", 1}});
  FrameReader reader;
  std::vector<Frame> frames;
  ASSERT_TRUE(reader.feed(some_frame(body), frames));
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].header.type, 64);
  EXPECT_EQ(frames[0].header.destination, NodeId(7));
  EXPECT_EQ(frames[0].header.source, NodeId(8));
  EXPECT_EQ(frames[0].header.term, Term(2));
  EXPECT_EQ(frames[0].header.attempt, Attempt(3));
  EXPECT_EQ(frames[0].header.sequence, Sequence(4));
  EXPECT_EQ(frames[0].body.view(), body);
}

TEST(Frame, SplitAtEveryByteGivesTheSameFrames) {
  const std::string bytes = some_frame(cbor({1, 2, 3})) + some_frame(cbor("text"));
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    FrameReader reader;
    std::vector<Frame> frames;
    ASSERT_TRUE(reader.feed(std::string_view(bytes).substr(0, cut), frames));
    ASSERT_TRUE(reader.feed(std::string_view(bytes).substr(cut), frames));
    ASSERT_EQ(frames.size(), 2u) << "cut at " << cut;
    EXPECT_EQ(frames[1].body.view(), cbor("text"));
  }
}

TEST(Frame, BytesReadIntoTheReadersRoomGiveTheSameFrames) {
  std::string bytes;
  for (std::size_t size = 1; size < 2'000'000; size = size * 3 + 1)
    bytes += some_frame(cbor(std::string(size, 'x')));
  FrameReader reader;
  std::vector<Frame> frames;
  for (std::string_view left = bytes; !left.empty();) {
    const std::span<char> room = reader.room();
    ASSERT_FALSE(room.empty());
    const std::size_t size = left.copy(room.data(), room.size());
    ASSERT_TRUE(reader.filled(size, frames));
    left.remove_prefix(size);
  }
  std::string again;
  for (const Frame& frame : frames) again += some_frame(frame.body.view());
  EXPECT_EQ(again, bytes);
}

TEST(Frame, LengthBeyondTheLimitIsRefusedBeforeTheBodyArrives) {
  FrameReader reader;
  std::vector<Frame> frames;
  const Status status = reader.feed("\xff\xff\xff\x7f", frames);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kCorrupt);
}

std::string refusal_of(std::string_view bytes) {
  FrameReader reader;
  std::vector<Frame> frames;
  const Status status = reader.feed(bytes, frames);
  EXPECT_TRUE(frames.empty());
  return status ? "" : status.error().message();
}

TEST(Frame, AnotherVersionIsRefusedAfterSixBytesAndTheLineNamesTheOlderSide) {
  // Version 1 of an agent's WorkersGone, and of a launcher's Leave: headers of 36 bytes.
  const std::string from_agent = std::string("\x21\0\0\0\1\x45", 6) + std::string(30, '\0') + "\xa0";
  const std::string from_launcher = std::string("\x21\0\0\0\1\5", 6) + std::string(30, '\0') + "\xa0";
  const std::string older =
      "the agent is older than this launcher (it speaks version 1 of the protocol, not 2): "
      "install the same Muster on all nodes";
  EXPECT_EQ(refusal_of(from_agent), older);
  EXPECT_EQ(refusal_of(from_agent.substr(0, 6)), older) << "it is refused without waiting for the rest";
  EXPECT_EQ(refusal_of(from_launcher),
            "the launcher is older than this agent (it speaks version 1 of the protocol, not 2): "
            "install the same Muster on all nodes");
  std::string newer = some_frame(cbor(1));
  newer[4] = 3;
  EXPECT_EQ(refusal_of(newer),
            "the agent is newer than this launcher (it speaks version 3 of the protocol, not 2): "
            "install the same Muster on all nodes");
}

TEST(Frame, ALengthTooShortForAHeaderIsRefused) {
  EXPECT_EQ(refusal_of(std::string("\x23\0\0\0\2\1", 6)), "frame of 35 bytes (allowed: 36 to 4194340)");
}

TEST(Frame, NestingBombIsRefusedBeforeAParserSeesIt) {
  FrameReader reader;
  std::vector<Frame> frames;
  EXPECT_FALSE(reader.feed(some_frame(std::string(kMaxBodyBytes, '\x81')), frames));
  EXPECT_TRUE(frames.empty());
}

TEST(CheckCbor, NestingIsAllowedUpToTheLimit) {
  for (const bool map : {false, true}) {
    json nested = 1;
    for (int depth = 0; depth < kMaxDepth; ++depth)
      nested = map ? json{{"k", nested}} : json::array({nested});
    EXPECT_TRUE(check_cbor(cbor(nested)));
    EXPECT_FALSE(check_cbor(cbor(json::array({nested}))));
  }
}

TEST(CheckCbor, AcceptsTheEncodersOutput) {
  const json value = {{"null", nullptr},
                      {"yes", true},
                      {"big", UINT64_MAX},
                      {"minus", INT64_MIN},
                      {"binary", json::binary({0, 255})},
                      {"empty", json::array()},
                      {"list", {1, "two", {{"three", 3}}}}};
  EXPECT_TRUE(check_cbor(cbor(value)));
}

TEST(CheckCbor, RefusesInputThatAParserShouldNotSee) {
  using namespace std::string_literals;
  for (const std::string& bytes : {
           ""s,                                      // nothing
           "\x01\x01"s,                              // two items
           "\x9f\xff"s,                              // indefinite length
           "\x9b\x00\x00\x00\x01\x00\x00\x00\x00"s,  // four billion elements in nine bytes
           "\x7b\xff\xff\xff\xff\xff\xff\xff\xff"s,  // a string longer than memory
           "\xbb\x80\x00\x00\x00\x00\x00\x00\x01"s,  // twice this count overflows
           "\x19\x01"s,                              // a number cut short
           "\xc0\x01"s,                              // a tag
           "\xf7"s,                                  // undefined
           "\xfc"s,                                  // reserved
           "\xf9\x3c\x00"s,                          // floats of 2, 4 and 8 bytes
           "\xfa\x3f\x80\x00\x00"s, "\xfb\x7e\x37\xe4\x3c\x88\x00\x75\x9c"s,
           "\x82\x01"s,  // an array that ends early
       }) {
    const Status status = check_cbor(bytes);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), ErrorCode::kCorrupt);
  }
}

// Bytes that pass the check parse without an exception, except one about their meaning; and no bytes crash
// the parser.
TEST(CheckCbor, RandomDamageIsEitherRefusedOrParsesCleanly) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string valid = cbor({{"a", {1, 2, 3}}, {"b", "text"}, {"c", {{"d", json::binary({1, 2})}}}});
  int passed = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string bytes = valid;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (!check_cbor(bytes)) continue;
    ++passed;
    // Only a map's key that is not a string is left for the parser to refuse.
    EXPECT_NO_THROW((void)json::from_cbor(bytes, true, false));
  }
  EXPECT_GT(passed, 100);
}

}  // namespace
}  // namespace muster::wire
