#include "runtime/checkpoint/safetensors.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <torch/torch.h>

namespace muster {
namespace {

using testing::HasSubstr;

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

TEST(Safetensors, IsTheFormatThatOthersRead) {
  Safetensors content;
  content.tensors["x"] = torch::tensor({1.0F, 2.0F});
  const std::string bytes = encoded(content);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  EXPECT_EQ(header_bytes % 8, 0u);
  EXPECT_THAT(bytes.substr(8, header_bytes),
              HasSubstr(R"("x":{"data_offsets":[0,8],"dtype":"F32","shape":[2]})"));
  EXPECT_EQ(bytes.size(), 8 + header_bytes + 8);
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

TEST(Safetensors, SurvivesAnyDamage) {
  Safetensors content;
  content.tensors["weight"] = at::ones({4, 4});
  content.tensors["mask"] = at::ones({3}, at::kBool);
  content.metadata["value:step"] = "3";
  const std::string whole = encoded(content);
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = whole.substr(0, round % 2 == 0 ? whole.size() : random() % whole.size());
    for (unsigned change = 0; change <= random() % 3; ++change) {
      if (!bytes.empty()) bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    refused += refusal(bytes) == "taken" ? 0 : 1;
  }
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace muster
