// Archives with sparse files, and archives compressed by zstd.
#include <array>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdexcept>

#include "tests/unit/runtime/web_archives.h"
#include "tests/unit/runtime/zstd_file.h"

namespace muster::web {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

class TarForms : public WebArchives {
 protected:
  std::string written(const std::string& name, const std::string& bytes) {
    std::ofstream(scratch_ / name, std::ios::binary) << bytes;
    return scratch_ / name;
  }
  void expect_refused(const std::string& path, const std::string& why) {
    EXPECT_THAT(([&] { all_of(WebDataset({path}, as_it_is)); }),
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("cannot read " + path), HasSubstr(why))));
  }
};

// Pieces of 1024 bytes with holes of 65536 before each, and a hole at the end.
std::string with_holes(int pieces) {
  std::string all;
  for (int i = 0; i < pieces; ++i)
    all += std::string(65536, '\0') + std::string(1024, static_cast<char>('a' + i % 26));
  return all + std::string(100'000, '\0');
}

const std::array kSparseForms = {"--format=gnu --sparse", "--format=posix --sparse --sparse-version=0.0",
                                 "--format=posix --sparse --sparse-version=0.1",
                                 "--format=posix --sparse --sparse-version=1.0"};

// GNU tar writes the archives. With 40 pieces, the old form's map continues in separate blocks.
TEST_F(TarForms, ASparseFileIsReadWhole) {
  const std::string long_name(120, 'n');
  for (const std::string options : kSparseForms) {
    const std::string path = archive("sparse.tar",
                                     {{"1.few.bin", with_holes(3)},
                                      {"1.many.bin", with_holes(40)},
                                      {"1.none.bin", std::string(1 << 20, '\0')},
                                      {long_name + ".bin", with_holes(5)},
                                      {"2.cls", "2"}},
                                     options + " --hole-detection=raw");
    ASSERT_LT(std::filesystem::file_size(path), 300'000) << options;
    const auto samples = all_of(WebDataset({path}, as_it_is));
    ASSERT_THAT(samples, SizeIs(3)) << options;
    EXPECT_TRUE(samples[0].parts.at("few.bin") == with_holes(3)) << options;
    EXPECT_TRUE(samples[0].parts.at("many.bin") == with_holes(40)) << options;
    EXPECT_TRUE(samples[0].parts.at("none.bin") == std::string(1 << 20, '\0')) << options;
    EXPECT_EQ(samples[1].key, long_name) << options;
    EXPECT_TRUE(samples[1].parts.at("bin") == with_holes(5)) << options;
    EXPECT_EQ(samples[2].number("cls"), 2) << options;
    // Skipping works too.
    const WebDataset dataset({path}, as_it_is);
    const auto reader = dataset.open({});
    ASSERT_TRUE(reader->skip(2)) << options;
    EXPECT_EQ(reader->next()->number("cls"), 2) << options;
    for (const std::size_t size : {20'000U, 3000U, 1024U, 512U}) {
      std::filesystem::resize_file(path,
                                   std::min<std::size_t>(size, std::filesystem::file_size(path) - 11'000));
      expect_refused(path, "it is cut off");
    }
  }
}

// A header whose numbers were changed, with a correct checksum.
std::string with_field(std::string bytes, std::size_t at, const std::string& field) {
  bytes.replace(at, field.size(), field);
  bytes.replace(148, 8, "        ");
  unsigned sum = 0;
  for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(bytes[i]);
  return bytes.replace(148, 8, fmt::format("{:06o}\0 ", sum));
}

TEST_F(TarForms, AFalseMapTakesNoMemory) {
  const std::string whole = contents_of(
      archive("whole.tar", {{"1.bin", with_holes(3)}}, "--format=gnu --sparse --hole-detection=raw"));
  ASSERT_EQ(whole[156], 'S');
  expect_refused(written("huge.tar", with_field(whole, 483, "07777777777777")), "the sparse file 1.bin has");
  expect_refused(written("huge.tar", with_field(whole, 483, "00777777777777")),
                 "bytes of holes, and at most 268435456 can be read: write the archive without --sparse");
  const std::string damaged = "the map of the sparse file 1.bin is damaged";
  expect_refused(written("small.tar", with_field(whole, 483, "000000001000")), damaged);
  expect_refused(written("back.tar", with_field(whole, 386 + 24, "000000000000")), damaged);
  expect_refused(written("minus.tar", with_field(whole, 386, "-00000000001")), damaged);
  expect_refused(written("more.tar", with_field(whole, 386 + 12, "000000003000")),
                 "the map of the sparse file 1.bin has");
  for (const auto& [in, out, why] : std::vector<std::array<std::string, 3>>{
           {"GNU.sparse.realsize=", "GNU.sparse.realsize=1", "the map of the sparse file 1.bin is damaged"},
           {"GNU.sparse.major=1", "GNU.sparse.major=2", "an unknown form, GNU.sparse.major=2"},
           {"GNU.sparse.realsize=", "GNU.sparse.realsize=-",
            "the map of a sparse file in a pax header is damaged"}}) {
    std::string bytes =
        contents_of(archive("pax.tar", {{"1.bin", with_holes(3)}},
                            "--format=posix --sparse --sparse-version=1.0 --hole-detection=raw"));
    // The number of digits stays the same, so that the record's length stays correct.
    const std::size_t at = bytes.find(in);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, out.size(), out);
    expect_refused(written("lie.tar", bytes), why);
  }
}

#ifdef MUSTER_ZSTD
TEST_F(TarForms, AZstdArchiveIsReadToTheEndOfTheFile) {
  const std::string tar = contents_of(numbers("plain.tar", 0, 50));
  const std::string skipped = zstd_skippable_frame("an index, say");
  const std::size_t half = tar.size() / 2 + 100;
  const std::string two =
      zstd_frame(tar.substr(0, half)) + skipped + zstd_frame(tar.substr(half), false, false);
  for (const std::string& bytes : {zstd_frame(tar), zstd_frame(tar, false), zstd_frame(tar, true, false), two,
                                   skipped + skipped + two + skipped, zstd_frame("") + two}) {
    const auto samples = all_of(WebDataset({written("a.tar", bytes)}, number_of));
    ASSERT_THAT(samples, SizeIs(50));
    EXPECT_EQ(samples[49], 49);
    for (const std::size_t missing : {1U, 3U, 5U, 30U})
      expect_refused(written("cut.tar", bytes.substr(0, bytes.size() - missing)), "it is cut off");
  }
  expect_refused(written("more.tar", two + "something else"),
                 "other bytes follow the data that zstd has compressed");
  std::string damaged = zstd_frame(tar);
  damaged[damaged.size() - 1] ^= 1;
  expect_refused(written("sum.tar", damaged), "its checksum is wrong, so it is damaged");
  damaged = two;
  damaged[zstd_frame(tar.substr(0, half)).size() - 1] ^= 0x40;  // the checksum of the first frame
  expect_refused(written("damaged.tar", damaged), "damaged");
  expect_refused(written("text.tar", zstd_frame(std::string(1000, 'x'))), "not a tar archive");
  expect_refused(written("empty.tar", zstd_frame("")), "it is empty");
}
#else
TEST_F(TarForms, WithoutLibzstdTheErrorSaysSo) {
  expect_refused(written("a.tar", "\x28\xb5\x2f\xfd and so on"),
                 "it is compressed by zstd, and this Muster was built without libzstd");
}
#endif

}  // namespace
}  // namespace muster::web
