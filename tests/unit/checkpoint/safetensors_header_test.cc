#include "common/checkpoint/safetensors_header.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using testing::HasSubstr;

// Parses a file with this header, as other programs may write it, and that many bytes of data.
Expected<SafetensorsHeader> parsed(const std::string& header, std::uint64_t data_bytes) {
  return parse_header(header, kHeaderLengthBytes + header.size() + data_bytes);
}

std::string refusal(const std::string& header, std::uint64_t data_bytes) {
  const auto content = parsed(header, data_bytes);
  return content ? "taken" : content.error().message();
}

std::string one_tensor(const char* type, const char* shape, const char* offsets) {
  return fmt::format(R"({{"w":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", type, shape, offsets);
}

TEST(SafetensorsHeader, IsReadAsItWasLaidOut) {
  std::vector<HeaderTensor> tensors{{.name = "flags", .dtype = Dtype::kBool, .shape = {3}},
                                    {.name = "z", .dtype = Dtype::kF32, .shape = {2, 3}},
                                    {.name = "a", .dtype = Dtype::kF32, .shape = {}},
                                    {.name = "big", .dtype = Dtype::kI64, .shape = {5}},
                                    {.name = "none", .dtype = Dtype::kF64, .shape = {0, 4}},
                                    {.name = "half", .dtype = Dtype::kF8E4M3, .shape = {7}}};
  const auto head = lay_out(tensors, {{"format", "pt"}});
  ASSERT_TRUE(head) << head.error().message();
  EXPECT_EQ(head->text.size() % 8, 0u);
  EXPECT_EQ(head->file_bytes, head->text.size() + 3 + 24 + 4 + 40 + 7);
  const auto length = header_bytes(head->text.substr(0, 8), head->file_bytes);
  ASSERT_EQ(length, head->text.size() - 8);
  const auto header = parse_header(std::string_view(head->text).substr(8), head->file_bytes);
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->tensors, tensors);
  EXPECT_EQ(header->metadata.at("format"), "pt");
  std::uint64_t at = head->text.size();
  for (const HeaderTensor& tensor : tensors) {
    EXPECT_EQ(tensor.begin_bytes, at) << tensor.name;
    EXPECT_EQ(at % (bits_of(tensor.dtype) / 8), 0u) << tensor.name;
    at += tensor.size_bytes;
  }
}

TEST(SafetensorsHeader, WithoutTensorsIsValid) {
  std::vector<HeaderTensor> none;
  const auto head = lay_out(none, {});
  ASSERT_TRUE(head);
  EXPECT_EQ(head->text, std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_TRUE(parse_header("{}      ", 16).value().tensors.empty());
}

TEST(SafetensorsHeader, ImpossibleTensorsAreNotLaidOut) {
  const auto said = [](std::vector<HeaderTensor> tensors) {
    const auto head = lay_out(tensors, {{"format", "pt"}});
    return head ? "taken" : head.error().message();
  };
  const HeaderTensor tensor{.name = "w", .dtype = Dtype::kF32, .shape = {2}};
  EXPECT_EQ(said({tensor}), "taken");
  EXPECT_THAT(said({tensor, tensor}), HasSubstr("nor occur twice: w"));
  EXPECT_THAT(said({{.name = "__metadata__", .dtype = Dtype::kF32, .shape = {2}}}),
              HasSubstr("__metadata__"));
  EXPECT_THAT(said({{.name = "w", .dtype = Dtype::kF32, .shape = {-2}}}), HasSubstr("does not fill whole bytes"));
  EXPECT_THAT(said({{.name = "w", .dtype = Dtype::kF4, .shape = {3}}}), HasSubstr("does not fill whole bytes"));
  EXPECT_THAT(said({{.name = "\xff", .dtype = Dtype::kF32, .shape = {2}}}), HasSubstr("not UTF-8"));
}

TEST(SafetensorsHeader, OfOtherProgramsIsAccepted) {
  // Spaces, no metadata, a different order, a type of 4 bits, a tensor without elements, a scalar.
  const auto header = parsed(R"( {"b": {"data_offsets": [6, 10], "dtype": "F4", "shape": [2, 4]},
    "a": {"dtype": "BF16", "shape": [1, 3], "data_offsets": [0, 6]},
    "none": {"dtype": "F64", "shape": [4, 0, 9], "data_offsets": [6, 6]},
    "scalar": {"dtype": "F8_E8M0", "shape": [], "data_offsets": [10, 11]}}  )",
                             11);
  ASSERT_TRUE(header) << header.error().message();
  std::vector<std::string> names;
  for (const HeaderTensor& tensor : header->tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, testing::ElementsAre("a", "none", "b", "scalar"));
}

TEST(SafetensorsHeader, NullMetadataIsEmpty) {
  const auto header =
      parsed(R"({"__metadata__":null,"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1);
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_TRUE(header->metadata.empty());
  EXPECT_EQ(header->tensors.size(), 1u);
}

TEST(SafetensorsHeader, BytesAfterTheTextAreRefused) {
  const std::string text = one_tensor("U8", "[1]", "[0,1]");
  EXPECT_EQ(refusal(text + "  ", 1), "taken");
  EXPECT_THAT(refusal(text + std::string(2, '\0'), 1), HasSubstr("a byte 0 in the text"));
  EXPECT_THAT(refusal(text + "{}", 1), HasSubstr("not a safetensors header"));
}

TEST(SafetensorsHeader, InconsistentHeadersAreRefused) {
  EXPECT_EQ(refusal(one_tensor("F32", "[2]", "[0,8]"), 8), "taken");
  EXPECT_THAT(refusal(one_tensor("F32", "[2]", "[0,8]"), 9), HasSubstr("9 bytes of data, 8 are described"));
  EXPECT_THAT(refusal(one_tensor("F32", "[2]", "[4,12]"), 12), HasSubstr("begins at byte 4, not at 0"));
  EXPECT_THAT(refusal(one_tensor("F32", "[3]", "[0,8]"), 8), HasSubstr("do not fit its shape"));
  EXPECT_THAT(refusal(one_tensor("F32", "[2]", "[8,0]"), 8), HasSubstr("do not fit its shape"));
  EXPECT_THAT(refusal(one_tensor("F32", "[-1,-2]", "[0,8]"), 8), HasSubstr("do not fit its shape"));
  EXPECT_THAT(refusal(one_tensor("F32", "[4611686018427387904,4]", "[0,0]"), 0), HasSubstr("fit its shape"));
  EXPECT_THAT(refusal(one_tensor("F32", "[2]", "[0,8,8]"), 8), HasSubstr("3 offsets instead of 2"));
  EXPECT_THAT(refusal(one_tensor("F4", "[3]", "[0,2]"), 2), HasSubstr("do not fit its shape"));
  EXPECT_THAT(refusal(one_tensor("F32", "[2.0]", "[0,8]"), 8), HasSubstr("not a safetensors header"));
  EXPECT_THAT(refusal("[]", 0), HasSubstr("not a safetensors header"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                      R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                      6),
              HasSubstr("tensor b begins at byte 2, not at 4"));
  const auto unknown = parsed(one_tensor("F12\\n", "[2]", "[0,3]"), 3);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(unknown.error().message(), "tensor w has the unknown type F12?");
}

TEST(SafetensorsHeader, AnInvalidLengthIsRefused) {
  const auto length = [](std::uint64_t bytes, std::uint64_t file_bytes) {
    return header_bytes({reinterpret_cast<const char*>(&bytes), 8}, file_bytes);
  };
  EXPECT_EQ(length(92, 100), 92u);
  EXPECT_FALSE(length(93, 100));
  EXPECT_FALSE(length(UINT64_MAX, 100));
  EXPECT_FALSE(length(100'000'001, 1ULL << 40));
  EXPECT_FALSE(header_bytes("", 0));
}

}  // namespace
}  // namespace muster
