// Files of tensors, compared with those of the official library.
#include <cerrno>
#include <cstdio>
#include <fmt/ranges.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <optional>
#include <sys/wait.h>

#include "common/base/check.h"
#include "common/checkpoint/safetensors_header.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

using testing::HasSubstr;

struct Stored {
  Dtype dtype{};
  Extents shape = {};
  std::string bytes;
  bool operator==(const Stored&) const = default;
};

// A file's tensors with their bytes.
struct Safetensors {
  std::map<std::string, Stored> tensors = {};
  std::map<std::string, std::string> metadata = {};
  bool operator==(const Safetensors&) const = default;
};

std::string encoded(const Safetensors& content) {
  std::vector<HeaderTensor> tensors;
  for (const auto& [name, tensor] : content.tensors)
    tensors.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape});
  const auto head = lay_out(tensors, content.metadata);
  EXPECT_TRUE(head);
  std::string file = head->text;
  for (const HeaderTensor& tensor : tensors) {
    EXPECT_EQ(tensor.begin_bytes, file.size());
    file += content.tensors.at(tensor.name).bytes;
  }
  EXPECT_EQ(file.size(), head->file_bytes);
  return file;
}

Expected<Safetensors> parse(const std::string& file) {
  const auto length = header_bytes(file, file.size());
  if (!length) return std::unexpected(length.error());
  const auto header = parse_header(std::string_view(file).substr(kHeaderLengthBytes, *length), file.size());
  if (!header) return std::unexpected(header.error());
  Safetensors content{.tensors = {}, .metadata = header->metadata};
  for (const HeaderTensor& tensor : header->tensors)
    content.tensors[tensor.name] = {.dtype = tensor.dtype,
                                    .shape = tensor.shape,
                                    .bytes = file.substr(tensor.begin_bytes, tensor.size_bytes)};
  return content;
}

// A file with this header and so many bytes of data.
std::string file_with(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header +
         std::string(data_bytes, '\1');
}

std::string refusal(const std::string& bytes) {
  const auto content = parse(bytes);
  return content ? "taken" : content.error().message();
}

Safetensors of_every_type() {
  Safetensors content;
  for (const char* type : {"BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64"}) {
    const Dtype dtype = parse_dtype(type).value();
    std::string bytes;
    for (unsigned i = 0; i < 15 * bits_of(dtype) / 8; ++i) bytes += static_cast<char>(i % 2);
    content.tensors[std::string("matrix.") + type] = {.dtype = dtype, .shape = {3, 5}, .bytes = bytes};
    content.tensors[std::string("number.") + type] = {
        .dtype = dtype, .shape = {}, .bytes = std::string(bits_of(dtype) / 8, '\1')};
  }
  content.tensors["empty"] = {.dtype = Dtype::kF32, .shape = {0, 4}, .bytes = ""};
  return content;
}

TEST(Safetensors, GivesBackEveryTypeAndShape) {
  Safetensors content = of_every_type();
  content.metadata["a \"key\""] = "a value\n";
  const auto back = parse(encoded(content));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, content);
}

// The type, shape and bytes of each tensor, as the official library's reader prints them.
std::string in_words(const Safetensors& content) {
  std::string text;
  for (const auto& [name, tensor] : content.tensors) {
    text += fmt::format("{} {} [{}] ", name, name_of(tensor.dtype), fmt::join(tensor.shape, ","));
    for (const unsigned char byte : tensor.bytes) text += fmt::format("{:02x}", byte);
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
  const auto back = parse({std::istreambuf_iterator<char>(file), {}});
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
  EXPECT_THAT(refusal(file("[18446744073709551615]", "[0,1]")),
              HasSubstr("not a whole number, or too large"));
  EXPECT_THAT(refusal(file("[true]", "[0,1]")), HasSubstr("not a whole number, or too large"));
  EXPECT_THAT(refusal(file("[1]", "[false,true]")), HasSubstr("not a whole number, or too large"));
  EXPECT_THAT(refusal(file("1", "[0,1]")), HasSubstr("not a safetensors header"));
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
  EXPECT_THAT(refusal(file_with("{", 0)), HasSubstr("not a safetensors header"));
  EXPECT_THAT(refusal(file_with("[1]", 0)), HasSubstr("not a safetensors header"));
  EXPECT_THAT(refusal(file_with(std::string(100000, '['), 0)), HasSubstr("not a safetensors header"));
  const std::string deep = "{\"x\":" + std::string(300000, '[') + std::string(300000, ']') + "}";
  EXPECT_THAT(refusal(file_with(deep, 0)), HasSubstr("nested deeper than 8"));
  EXPECT_THAT(refusal(file_with(R"({"x":3})", 0)), HasSubstr("not a safetensors header"));
  EXPECT_THAT(refusal(file_with(R"({"__metadata__":{"a":1}})", 0)), HasSubstr("not a safetensors header"));
}

}  // namespace
}  // namespace muster
