// Decoding of a sample's parts: .npz and .json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/data/web_dataset.h>
#include <stdexcept>
#include <torch/torch.h>
#include <zlib.h>

#include "tests/unit/runtime/npy_file.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

template <class Number>
void put(std::string& to, Number number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// How to write a ZIP archive: with 64-bit numbers wherever possible, or 32-bit ones, and with which damage.
struct ZipForm {
  bool deflated = false;
  bool wide = false;
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
  std::uint64_t more_bytes = 0;  // that each file falsely promises
  bool all_at_the_first = false;
};

std::string deflated(const std::string& bytes) {
  std::string packed(compressBound(bytes.size()) + 100, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // NOLINT: C's interface
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// PKWARE's APPNOTE 4.3.
std::string zip_file(const std::vector<std::pair<std::string, std::string>>& files,
                     const ZipForm& form = {}) {
  std::string archive, directory;
  for (const auto& [name, contents] : files) {
    const std::string packed = form.deflated ? deflated(contents) : contents;
    const auto sum = static_cast<std::uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(contents.data()), contents.size()));
    const std::uint64_t at = form.all_at_the_first ? 0 : archive.size(),
                        size = contents.size() + form.more_bytes;
    constexpr std::uint32_t kWide = 0xffffffff;
    const auto begin = [&](std::string& to, const char* signature, bool is_directory) {
      to += signature;
      if (is_directory) put<std::uint16_t>(to, 45);
      put<std::uint16_t>(to, 45);
      put(to, form.flags);
      put<std::uint16_t>(to, form.method != 0 ? form.method : form.deflated ? 8 : 0);
      put<std::uint32_t>(to, 0);
      put(to, sum);
      put<std::uint32_t>(to, form.wide ? kWide : static_cast<std::uint32_t>(packed.size()));
      put<std::uint32_t>(to, form.wide ? kWide : static_cast<std::uint32_t>(size));
      put(to, static_cast<std::uint16_t>(name.size()));
      put<std::uint16_t>(to, form.wide ? is_directory ? 28 : 20 : 0);
    };
    const auto end = [&](std::string& to, bool is_directory) {
      to += name;
      if (!form.wide) return;
      put<std::uint16_t>(to, 1);
      put<std::uint16_t>(to, is_directory ? 24 : 16);
      put(to, size);
      put<std::uint64_t>(to, packed.size());
      if (is_directory) put(to, at);
    };
    if (!form.all_at_the_first || archive.empty()) {
      begin(archive, "PK\x03\x04", false);
      end(archive, false);
      archive += packed;
    }
    begin(directory, "PK\x01\x02", true);
    directory.append(10, '\0');
    put<std::uint32_t>(directory, form.wide ? kWide : static_cast<std::uint32_t>(at));
    end(directory, true);
  }
  const std::uint64_t directory_at = archive.size(), end64_at = directory_at + directory.size();
  archive += directory;
  if (form.wide) {
    archive += "PK\x06\x06";
    put<std::uint64_t>(archive, 44);
    archive.append(12, '\0');
    put<std::uint64_t>(archive, files.size());
    put<std::uint64_t>(archive, files.size());
    put<std::uint64_t>(archive, directory.size());
    put(archive, directory_at);
    archive += "PK\x06\x07";
    put<std::uint32_t>(archive, 0);
    put(archive, end64_at);
    put<std::uint32_t>(archive, 1);
  }
  archive += "PK\x05\x06";
  put<std::uint32_t>(archive, 0);
  put(archive, static_cast<std::uint16_t>(files.size()));
  put(archive, static_cast<std::uint16_t>(files.size()));
  put(archive, static_cast<std::uint32_t>(directory.size()));
  put<std::uint32_t>(archive, form.wide ? 0xffffffff : static_cast<std::uint32_t>(directory_at));
  put<std::uint16_t>(archive, 0);
  return archive;
}

WebSample sample_of(const std::string& part, const std::string& contents) {
  return {.key = "7", .archive = "a.tar", .parts = {{part, contents}}};
}
const std::string kFloats = npy_file("'<f4'", "(2, 2)", bytes_of_numbers(std::vector<float>{1, 2, 3, 4})),
                  kLabels = npy_file("'<i8'", "(3,)", bytes_of_numbers(std::vector<std::int64_t>{5, 6, 7})),
                  kZeros = npy_file("'|u1'", "(100000,)", std::string(100'000, '\0'));

TEST(WebSample, AnNpzGivesItsArraysByName) {
  for (const bool deflated : {false, true})
    for (const bool wide : {false, true}) {
      const WebSample sample =
          sample_of("npz", zip_file({{"x.npy", kFloats}, {"deep/labels.npy", kLabels}, {"zeros.npy", kZeros}},
                                    {.deflated = deflated, .wide = wide}));
      const auto arrays = sample.arrays("npz");
      ASSERT_EQ(arrays.size(), 3);
      EXPECT_TRUE(arrays.at("x").equal(torch::tensor({{1.0F, 2.0F}, {3.0F, 4.0F}})));
      EXPECT_TRUE(arrays.at("deep/labels").equal(torch::tensor({5, 6, 7}, at::kLong)));
      EXPECT_TRUE(arrays.at("zeros").equal(torch::zeros({100'000}, at::kByte)));
    }
  EXPECT_TRUE(sample_of("npz", zip_file({})).arrays("npz").empty());
}

TEST(WebSample, ADamagedNpzIsNamed) {
  const auto refused = [](const std::string& bytes, const std::string& why) {
    EXPECT_THAT([&] { sample_of("npz", bytes).arrays("npz"); },
                ThrowsMessage<std::runtime_error>(
                    AllOf(HasSubstr("sample 7 of a.tar has a npz that cannot be read: "), HasSubstr(why))));
  };
  const std::string whole = zip_file({{"x.npy", kFloats}});
  const auto changed = [&whole](std::size_t at) {
    std::string bytes = whole;
    bytes[at] ^= 1;
    return bytes;
  };
  refused("", "its ZIP archive is damaged: its end is missing; it may have been cut off");
  refused(whole.substr(0, whole.size() - 1), "its end is missing");
  refused(changed(whole.find("\x93NUMPY") + 130),
          "x.npy in its ZIP archive is damaged: its checksum is wrong");
  refused(changed(whole.size() - 12), "its directory has more than 0 files");
  refused(changed(whole.rfind("PK\x01\x02") + 42),
          "x.npy in its ZIP archive is not where its directory says");
  refused(zip_file({{"x.npy", kFloats}}, {.method = 14}),
          "packed by method 14; only 0 (stored) and 8 (deflated) are supported");
  refused(zip_file({{"x.npy", kFloats}}, {.flags = 1}), "is encrypted");
  refused(zip_file({{"x.npy", kFloats}}, {.more_bytes = 1}), "packed bytes, which cannot give");
  refused(zip_file({{"x.npy", kFloats}}, {.deflated = true, .more_bytes = 1}), "it cannot be decompressed");
  for (const bool wide : {false, true})
    refused(zip_file({{"x.npy", kFloats}}, {.deflated = true, .wide = wide, .more_bytes = 1 << 30}),
            "packed bytes, which cannot give 10737419");
  refused(zip_file({{"a.npy", kZeros}, {"b.npy", kZeros}, {"c.npy", kZeros}}, {.all_at_the_first = true}),
          "its files overlap");
  refused(zip_file({{"x.npy", kFloats}, {"x.npy", kFloats}}), "two files named x.npy");
  refused(zip_file({{"x.txt", "text"}}), "x.txt in its ZIP archive is not a .npy file");
  refused(zip_file({{"x.npy", npy_file("'|O'", "(1,)", "12345678")}}),
          "x.npy: its array has the type |O, which cannot be read");
}

TEST(WebSample, AJsonHasNumbersAndTexts) {
  const WebSample sample =
      sample_of("json", R"( {"label": 3, "score": -0.5, "big": 9007199254740993, "ok": true,
    "caption": "a \u00fc", "boxes": [{"x": 1.5, "name": "cat"}], "a/b": 4, "none": null} )");
  EXPECT_EQ(sample.json_number("json", "label"), 3);
  EXPECT_EQ(sample.json_number("json", "score"), -0.5);
  EXPECT_EQ(sample.json_number("json", "ok"), 1);
  EXPECT_EQ(sample.json_number("json", "a/b"), 4);
  EXPECT_EQ(sample.json_number("json", "/boxes/0/x"), 1.5);
  EXPECT_EQ(sample.json_text("json", "caption"), "a \xc3\xbc");
  EXPECT_EQ(sample.json_text("json", "/boxes/0/name"), "cat");
  const auto number_refused = [&](const std::string& key, const std::string& why) {
    EXPECT_THAT(
        [&] { sample.json_number("json", key); },
        ThrowsMessage<std::runtime_error>("sample 7 of a.tar has a json in which \"" + key + "\" " + why));
  };
  number_refused("absent", "is missing");
  number_refused("/boxes/1/x", "is missing");
  number_refused("/boxes/~", "is missing");
  number_refused("caption", "is not a number that fits a double");
  number_refused("none", "is not a number that fits a double");
  number_refused("big", "is not a number that fits a double");
  EXPECT_THAT(
      [&] { sample.json_text("json", "label"); },
      ThrowsMessage<std::runtime_error>("sample 7 of a.tar has a json in which \"label\" is not a string"));
  EXPECT_THAT(
      [] { sample_of("json", "{\"label\": ").json_text("json", "label"); },
      ThrowsMessage<std::runtime_error>("sample 7 of a.tar has a json that cannot be read: it is not JSON"));
  // Nested deeper than a stack allows.
  const std::string deep(100'000, '[');
  const WebSample nested = sample_of("json", "{\"a\": " + deep + std::string(deep.size(), ']') + "}");
  EXPECT_THAT([&] { nested.json_number("json", "a"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("is not a number")));
}

}  // namespace
}  // namespace muster
