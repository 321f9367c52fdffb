#include "runtime/checkpoint/safetensors.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/ranges.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <optional>
#include <random>
#include <sys/wait.h>
#include <torch/torch.h>

#include "common/base/check.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

using testing::HasSubstr;

std::string bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

at::Tensor as_file(const std::string& bytes) {
  at::Tensor file = at::empty({std::ssize(bytes)}, at::kByte);
  if (!bytes.empty()) std::memcpy(file.mutable_data_ptr(), bytes.data(), bytes.size());
  return file;
}

std::string encoded(const Safetensors& content) {
  std::string bytes;
  const Status done = encode_safetensors(content, [&](std::string_view piece) {
    bytes += piece;
    return Status();
  });
  EXPECT_TRUE(done);
  return bytes;
}

// A file with this header and so many bytes of data.
std::string file_with(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header +
         std::string(data_bytes, '\1');
}

std::string refusal(const std::string& bytes) {
  const auto content = parse_safetensors(as_file(bytes));
  return content ? "taken" : content.error().message();
}

TEST(Safetensors, GivesBackEveryTypeAndShape) {
  Safetensors content;
  for (const at::ScalarType type : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong,
                                    at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat}) {
    content.tensors[std::string("matrix ") + c10::toString(type)] = at::ones({3, 5}, type);
    content.tensors[std::string("number ") + c10::toString(type)] = at::ones({}, type);
  }
  content.tensors["empty"] = at::empty({0, 4}, at::kFloat);
  content.metadata["a \"key\""] = "a value\n";
  const auto back = parse_safetensors(as_file(encoded(content)));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->metadata, content.metadata);
  ASSERT_EQ(back->tensors.size(), content.tensors.size());
  for (const auto& [name, tensor] : content.tensors) {
    EXPECT_EQ(back->tensors.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(back->tensors.at(name).equal(tensor)) << name;
  }
}

// Of each tensor its type, shape and bytes, as the official library's reader prints them.
std::string in_words(const Safetensors& content) {
  std::string text;
  for (const auto& [name, tensor] : content.tensors) {
    text +=
        fmt::format("{} {} [{}] ", name, c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ","));
    for (const unsigned char byte : bytes_of(tensor)) text += fmt::format("{:02x}", byte);
    text += '\n';
  }
  for (const auto& [key, value] : content.metadata) text += fmt::format("{}={}\n", key, value);
  return text;
}

constexpr const char* kNoLibrary =
    "no Python comes with this LibTorch, or none that has safetensors: ./dev setup installs both";
// The official library's answer; none if there is no Python that has it.
std::optional<std::string> official(const std::string& command, const std::string& file) {
  if (std::string_view(MUSTER_TORCH_PYTHON).empty()) return std::nullopt;
  const std::string line =
      fmt::format("{} -B {} {} {} 2>&1", MUSTER_TORCH_PYTHON, SAFETENSORS_SCRIPT, command, file);
  FILE* const python = popen(line.c_str(), "r");
  CHECK(python != nullptr, "popen: {}", strerrorname_np(errno));
  std::string text;
  char piece[4096];
  for (std::size_t size = 0; (size = fread(piece, 1, sizeof piece, python)) > 0;) text.append(piece, size);
  const int status = pclose(python);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return std::nullopt;
  EXPECT_EQ(status, 0) << text;
  return text;
}

Safetensors of_every_type() {
  Safetensors content;
  for (const at::ScalarType type : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong,
                                    at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    content.tensors[std::string("matrix.") + c10::toString(type)] =
        at::arange(15, at::kInt).remainder(2).to(type).view({3, 5});
    content.tensors[std::string("number.") + c10::toString(type)] = at::ones({}, type);
  }
  content.tensors["empty"] = at::empty({0, 4}, at::kFloat);
  return content;
}

TEST(Safetensors, IsOpenedByTheOfficialLibrary) {
  const ScratchDirectory scratch;
  Safetensors content = of_every_type();
  content.metadata["value:loader"] = R"({"epoch":3})";
  std::ofstream(scratch / "ours", std::ios::binary) << encoded(content);
  const auto seen = official("read", scratch / "ours");
  if (!seen) GTEST_SKIP() << kNoLibrary;
  EXPECT_EQ(*seen, in_words(content));
}

TEST(Safetensors, OpensWhatTheOfficialLibraryWrites) {
  const ScratchDirectory scratch;
  const Safetensors content = of_every_type();
  std::ofstream(scratch / "ours", std::ios::binary) << encoded(content);
  if (!official("copy", scratch / "ours")) GTEST_SKIP() << kNoLibrary;
  std::ifstream file(scratch / "ours.copy", std::ios::binary);
  const auto back = parse_safetensors(as_file({std::istreambuf_iterator<char>(file), {}}));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(in_words(*back), in_words(content));
}

TEST(Safetensors, RefusesHolesOverlapAndWrongSizes) {
  const std::string x = R"("x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  EXPECT_EQ(refusal(file_with("{" + x + "}", 2)), "taken");
  EXPECT_THAT(refusal(file_with("{" + x + "}", 3)), HasSubstr("3 bytes of data, 2 are described"));
  EXPECT_THAT(refusal(file_with("{" + x + "}", 1)), HasSubstr("1 bytes of data, 2 are described"));
  EXPECT_THAT(refusal(file_with("{" + x + R"(,"y":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})", 5)),
              HasSubstr("begins at byte 3, not at 2"));
  EXPECT_THAT(refusal(file_with("{" + x + R"(,"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3)),
              HasSubstr("begins at byte 1, not at 2"));
}

TEST(Safetensors, RefusesShapesThatOverflowOrDoNotFit) {
  for (const char* shape : {"[3]", "[-2]", "[4294967296,4294967296,2]", "[9223372036854775807,2]"}) {
    EXPECT_THAT(refusal(file_with(
                    fmt::format(R"({{"x":{{"dtype":"U8","shape":{},"data_offsets":[0,2]}}}})", shape), 2)),
                HasSubstr("offsets that do not fit its shape"))
        << shape;
  }
  EXPECT_THAT(
      refusal(file_with(
          R"({"x":{"dtype":"U8","shape":[0,4611686018427387904,4611686018427387904],"data_offsets":[0,0]}})",
          0)),
      HasSubstr("offsets that do not fit its shape"));
  EXPECT_THAT(refusal(file_with(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}})", 2)),
              HasSubstr("do not fit"));
  EXPECT_THAT(refusal(file_with(R"({"x":{"dtype":"Q8","shape":[2],"data_offsets":[0,2]}})", 2)),
              HasSubstr("unknown type Q8"));
}

TEST(Safetensors, RefusesWhatIsNoListOfWholeNumbers) {
  const auto file = [](const char* shape, const char* offsets) {
    return file_with(fmt::format(R"({{"x":{{"dtype":"U8","shape":{},"data_offsets":{}}}}})", shape, offsets),
                     1);
  };
  EXPECT_EQ(refusal(file("[1]", "[0,1]")), "taken");
  EXPECT_THAT(refusal(file("[18446744073709551615]", "[0,1]")), HasSubstr("not whole, or too large"));
  EXPECT_THAT(refusal(file("[true]", "[0,1]")), HasSubstr("not whole, or too large"));
  EXPECT_THAT(refusal(file("[1]", "[false,true]")), HasSubstr("not whole, or too large"));
  EXPECT_THAT(refusal(file("1", "[0,1]")), HasSubstr("not one of safetensors"));
  EXPECT_THAT(refusal(file("[1]", "[0,1,2]")), HasSubstr("tensor x has 3 offsets instead of 2"));
}

TEST(Safetensors, ARefusalIsOneLineWhateverATensorIsCalled) {
  EXPECT_THAT(
      refusal(file_with(R"({"a\n\u001b":{"dtype":"\u001b[2J","shape":[1],"data_offsets":[0,1]}})", 1)),
      HasSubstr("tensor a?? has the unknown type ?[2J"));
  EXPECT_THAT(refusal(file_with(R"({"a\n":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2)),
              HasSubstr("tensor a? begins at byte 1"));
}

TEST(Safetensors, RefusesHeadersThatAreNone) {
  EXPECT_THAT(refusal("short"), HasSubstr("5 bytes are too few"));
  EXPECT_THAT(refusal(std::string(8, '\xff')),
              HasSubstr("a header of 18446744073709551615 bytes in a file of 8"));
  EXPECT_THAT(refusal(file_with("{", 0)), HasSubstr("not one of safetensors"));
  EXPECT_THAT(refusal(file_with("[1]", 0)), HasSubstr("not one of safetensors"));
  EXPECT_THAT(refusal(file_with(std::string(100000, '['), 0)), HasSubstr("not one of safetensors"));
  const std::string deep = "{\"x\":" + std::string(300000, '[') + std::string(300000, ']') + "}";
  EXPECT_THAT(refusal(file_with(deep, 0)), HasSubstr("nested deeper than 8"));
  EXPECT_THAT(refusal(file_with(R"({"x":3})", 0)), HasSubstr("not one of safetensors"));
  EXPECT_THAT(refusal(file_with(R"({"__metadata__":{"a":1}})", 0)), HasSubstr("not one of safetensors"));
}

TEST(Safetensors, NoticesDamagedData) {
  Safetensors content;
  content.tensors["x"] = at::arange(100, at::kFloat);
  std::string bytes = encoded(content);
  bytes[bytes.size() - 5] ^= 4;
  EXPECT_THAT(refusal(bytes), HasSubstr("the digest of tensor x does not fit"));
}

TEST(Safetensors, RefusesATensorWithoutADigestBesideOthersThatHaveOne) {
  Safetensors content;
  content.tensors["weight"] = at::ones({2});
  content.tensors["bias"] = at::ones({2});
  std::string bytes = encoded(content);
  const auto rename = [&](const std::string& from, const std::string& to) {
    std::string renamed = bytes;
    renamed.replace(renamed.find(from), from.size(), to);
    return refusal(renamed);
  };
  EXPECT_THAT(rename("\"weight\":", "\"wright\":"), HasSubstr("tensor wright has no digest"));
  EXPECT_THAT(rename("xxh3:bias", "xxh4:bias"), HasSubstr("tensor bias has no digest"));
}

// What is taken all the same has every tensor's bytes: only its type or shape, or a text beside it, may be
// another. (A checkpoint's manifest has a digest of the whole file.)
TEST(Safetensors, TakesNoDamagedTensorForAWholeOne) {
  Safetensors content;
  content.tensors["weight"] = at::arange(16, at::kFloat).view({4, 4});
  content.tensors["mask"] = torch::tensor({true, false, true});
  content.metadata["value:step"] = "3";
  const std::string whole = encoded(content);
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int refused_count = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = whole.substr(0, round % 2 == 0 ? whole.size() : random() % whole.size());
    // Three could hide each other: both digests' names, and data.
    const unsigned changes = round % 4 < 2 ? 1 : 2;
    for (unsigned change = 0; change < changes; ++change) {
      if (!bytes.empty()) bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto taken = parse_safetensors(as_file(bytes));
    if (!taken) {
      ++refused_count;
      continue;
    }
    ASSERT_EQ(taken->tensors.size(), content.tensors.size()) << bytes;
    for (const auto& [name, tensor] : content.tensors) {
      ASSERT_TRUE(taken->tensors.contains(name)) << bytes;
      EXPECT_EQ(bytes_of(taken->tensors.at(name)), bytes_of(tensor)) << bytes;
    }
  }
  EXPECT_GT(refused_count, 3000);
}

}  // namespace
}  // namespace muster
