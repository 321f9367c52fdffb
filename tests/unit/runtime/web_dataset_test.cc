#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/data/data_loader.h>
#include <muster/data/web_dataset.h>
#include <set>
#include <stdexcept>
#include <torch/torch.h>
#include <zlib.h>

#include "tests/unit/runtime/npy_file.h"
#include "tests/unit/runtime/web_archives.h"

namespace muster::web {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;
using testing::ThrowsMessage;

class WebDatasetTest : public WebArchives {};

std::vector<std::int64_t> list(const at::Tensor& batch) {
  return {batch.data_ptr<std::int64_t>(), batch.data_ptr<std::int64_t>() + batch.numel()};
}

// Like webdataset's group_by_keys: the key ends at the first dot after the last slash; the rest is lower
// case.
TEST_F(WebDatasetTest, ConsecutiveFilesOfOneNameMakeASample) {
  const std::string path = archive("a.tar", {{"x/1.jpg", "one"},
                                             {"x/1.seg.PNG", "mask"},
                                             {"__meta__/1.json", "?"},
                                             {"y/1.jpg", "two"},
                                             {"README", "?"},
                                             {"y/.hidden", "?"},
                                             {"y/1.cls", "7\n"},
                                             {"a.b/2.cls", "8"}});
  const WebDataset dataset({path}, as_it_is);
  const auto samples = all_of(dataset);
  ASSERT_THAT(samples, SizeIs(3));
  EXPECT_EQ(samples[0].key, "x/1");
  EXPECT_EQ(samples[0].archive, path);
  EXPECT_THAT(samples[0].parts, ElementsAre(Pair("jpg", "one"), Pair("seg.png", "mask")));
  EXPECT_EQ(samples[1].key, "y/1");
  EXPECT_THAT(samples[1].parts, ElementsAre(Pair("cls", "7\n"), Pair("jpg", "two")));
  EXPECT_EQ(samples[1].number("cls"), 7);
  EXPECT_EQ(samples[1].text("jpg"), "two");
  EXPECT_EQ(samples[1].bytes("jpg")[0], 't');
  EXPECT_EQ(samples[2].key, "a.b/2");
  EXPECT_THAT([&] { samples[0].number("cls"); },
              ThrowsMessage<std::runtime_error>("sample x/1 of " + path + " has no cls, but jpg, seg.png"));
  EXPECT_THAT(
      [&] { samples[1].number("jpg"); },
      ThrowsMessage<std::runtime_error>("sample y/1 of " + path + " has a jpg that is not a whole number"));
}

TEST_F(WebDatasetTest, ReadsEveryFormOfTar) {
  const std::string folder(120, 'f'), name = folder + "/" + std::string(130, 'n');
  const std::string big(100'000, 'b');
  const Files files{{name + ".txt", big}, {name + ".cls", "1"}, {"empty.txt", ""}};
  for (const std::string options :
       {"--format=gnu", "--format=posix", "--format=gnu -z", "--format=posix --sparse"}) {
    const WebDataset dataset({archive("all.tar", files, options)}, as_it_is);
    const auto samples = all_of(dataset);
    ASSERT_THAT(samples, SizeIs(2)) << options;
    EXPECT_EQ(samples[0].key, name) << options;
    EXPECT_THAT(samples[0].parts, ElementsAre(Pair("cls", "1"), Pair("txt", big))) << options;
    EXPECT_THAT(samples[1].parts, ElementsAre(Pair("txt", ""))) << options;
  }
  const std::string part(90, 'p');
  const WebDataset old({archive("old.tar", {{part + "/" + part + ".txt", big}}, "--format=ustar")}, as_it_is);
  EXPECT_EQ(all_of(old).at(0).key, part + "/" + part);
}

TEST_F(WebDatasetTest, EveryShardHasItsOwnArchives) {
  for (int i = 8; i < 13; ++i)
    numbers(std::string(i < 10 ? "n-00" : "n-0") + std::to_string(i) + ".tar", 10 * i, 10 * i + 3);
  const WebDataset dataset({scratch_ / "n-{008..012}.tar"}, number_of);
  EXPECT_EQ(dataset.name(), std::string(scratch_ / "n-008.tar") + " and 4 more");
  EXPECT_THAT(all_of(dataset),
              ElementsAre(80, 81, 82, 90, 91, 92, 100, 101, 102, 110, 111, 112, 120, 121, 122));
  EXPECT_THAT(all_of(dataset, {.index = 1, .count = 3}), ElementsAre(90, 91, 92, 120, 121, 122));
  EXPECT_THAT(all_of(dataset, {.index = 5, .count = 8}), ElementsAre());
  std::multiset<std::int64_t> seen;
  for (const int rank : {0, 1}) {
    DataLoader loader(dataset, {.batch_size = 2, .num_workers = 2}, rank, 2);
    for (auto& batch : loader)
      for (const std::int64_t number : list(batch)) seen.insert(number);
  }
  EXPECT_THAT(seen, SizeIs(15));
  EXPECT_THAT(std::set(seen.begin(), seen.end()), SizeIs(15));
}

TEST_F(WebDatasetTest, ShufflesArchivesAndSamplesInEveryEpoch) {
  for (int i = 0; i < 6; ++i) numbers("s" + std::to_string(i) + ".tar", 10 * i, 10 * i + 10);
  const std::vector<std::string> archives{scratch_ / "s{0..5}.tar"};
  const auto epoch = [](const auto& dataset, int number, int workers = 0) {
    DataLoader loader(dataset, {.batch_size = 60, .num_workers = workers, .seed = 4, .shards = 1}, 0, 1);
    for (auto& batch : loader.epochs(3))
      if (loader.epoch() == number) return list(batch);
    return std::vector<std::int64_t>();
  };
  const WebDataset in_order(archives, number_of);
  const WebDataset of_archives(archives, number_of, {.shardshuffle = true});
  const WebDataset of_samples(archives, number_of, {.shuffle = 16});
  const auto plain = epoch(in_order, 0), first = epoch(of_archives, 0), second = epoch(of_archives, 1),
             drawn = epoch(of_samples, 0);
  EXPECT_NE(first, plain);
  EXPECT_NE(first, second);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i] % 10, static_cast<std::int64_t>(i) % 10);
  EXPECT_NE(drawn, plain);
  EXPECT_NE(drawn, epoch(of_samples, 1));
  EXPECT_EQ(drawn, epoch(of_samples, 0, 2));
  for (const auto& order : {first, second, drawn}) EXPECT_TRUE(std::ranges::is_permutation(order, plain));
  // A sample cannot come before it is among the 16 that are held.
  for (std::size_t i = 0; i < drawn.size(); ++i) EXPECT_LE(drawn[i], static_cast<std::int64_t>(i) + 15);
}

TEST_F(WebDatasetTest, AResumedRunHasTheSameRest) {
  for (int i = 0; i < 4; ++i) numbers("r" + std::to_string(i) + ".tar", 10 * i, 10 * i + 5 + i);
  for (const std::int64_t shuffle : {0, 7}) {
    const WebDataset dataset({scratch_ / "r{0..3}.tar"}, number_of,
                             {.shardshuffle = true, .shuffle = shuffle});
    const DataLoaderOptions options{.batch_size = 3, .num_workers = 2, .seed = 9};
    for (const int stop : {1, 4, 7}) {
      DataLoader loader(dataset, options, 0, 1), resumed(dataset, options, 0, 1);
      std::vector<std::vector<std::int64_t>> expected, rest;
      int taken = 0;
      for (auto& batch : loader.epochs(2)) {
        if (++taken == stop) resumed.load_state(loader.state());
        if (taken > stop) expected.push_back(list(batch));
      }
      for (auto& batch : resumed.epochs(2)) rest.push_back(list(batch));
      EXPECT_EQ(rest, expected) << shuffle << " held, stopped after " << stop;
    }
  }
}

TEST_F(WebDatasetTest, DamageIsNamedAndTheNextArchiveFollows) {
  const std::string cut = numbers("cut.tar", 0, 3), rest = numbers("rest.tar", 10, 12);
  std::filesystem::resize_file(cut, 3 * 1024 - 512);  // in the middle of the third
  const std::string missing = scratch_ / "missing.tar",
                    twice = archive("twice.tar", {{"1.cls", "1"}, {"1.CLS", "2"}, {"2.cls", "20"}});
  const std::string other = scratch_ / "other.tar";
  std::ofstream(other) << std::string(2000, 'x');
  const WebDataset dataset({cut, missing, twice, other, rest}, number_of);
  DataLoader strict(dataset, {.batch_size = 2}, 0, 1);
  EXPECT_THAT(
      [&] {
        for ([[maybe_unused]] auto& batch : strict) {
        }
      },
      ThrowsMessage<std::runtime_error>(
          AllOf(HasSubstr("shard 0 of 1"), HasSubstr("cannot read " + cut + ": it is cut off"))));
  std::vector<std::string> words;
  const auto reader = dataset.open({});
  for (bool more = true; more;) {
    try {
      const auto number = reader->next();
      more = number.has_value();
      if (more) words.push_back(std::to_string(*number));
    } catch (const std::runtime_error& error) {
      words.emplace_back(error.what());
    }
  }
  EXPECT_THAT(words, ElementsAre("0", "1", "cannot read " + cut + ": it is cut off",
                                 "cannot open " + missing + ": No such file or directory",
                                 "sample 1 of " + twice + " has two cls", "20",
                                 "cannot read " + other +
                                     ": it is not a tar archive, or one of its headers is damaged",
                                 "10", "11"));
  DataLoader skipping(dataset, {.batch_size = 3, .bad_sample = BadSample::kSkip}, 0, 1);
  DataLoader resumed(dataset, {.batch_size = 3, .bad_sample = BadSample::kSkip}, 0, 1);
  std::vector<std::vector<std::int64_t>> batches, more;
  for (auto& batch : skipping) {
    batches.push_back(list(batch));
    if (batches.size() == 1) resumed.load_state(skipping.state());
  }
  EXPECT_THAT(batches, ElementsAre(ElementsAre(0, 1), ElementsAre(20), ElementsAre(10, 11)));
  for (auto& batch : resumed) more.push_back(list(batch));
  EXPECT_THAT(more, ElementsAre(ElementsAre(20), ElementsAre(10, 11)));
}

// One byte of a part is changed. Only gzip's checksum after the archive shows it.
TEST_F(WebDatasetTest, ADamagedByteInACompressedArchiveIsNamed) {
  const std::string plain = numbers("plain.tar", 0, 3), packed = scratch_ / "packed.tar.gz";
  const std::string whole = contents_of(plain);
  const auto pack = [&](const std::string& mode, std::size_t first, std::size_t count) {
    const gzFile file = gzopen(packed.c_str(), mode.c_str());
    gzwrite(file, whole.data() + first, static_cast<unsigned>(count));
    gzclose(file);
  };
  const auto numbers_read = [&] { return all_of(WebDataset({packed}, number_of)); };
  pack("wb0", 0, whole.size());  // uncompressed, so that each byte of the archive is a byte of the file
  EXPECT_THAT(numbers_read(), ElementsAre(0, 1, 2));
  std::string bytes = contents_of(packed);
  const std::size_t place = bytes.find("0\n");
  ASSERT_NE(place, std::string::npos);
  bytes[place] = '7';
  std::ofstream(packed) << bytes;
  EXPECT_THAT(numbers_read,
              ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("cannot read " + packed + ": "),
                                                      HasSubstr("its checksum is wrong, so it is damaged"))));
  for (const std::size_t missing : {1U, 8U}) {  // of the checksum and the length
    pack("wb9", 0, whole.size());
    std::filesystem::resize_file(packed, std::filesystem::file_size(packed) - missing);
    EXPECT_THAT(numbers_read, ThrowsMessage<std::runtime_error>("cannot read " + packed + ": it is cut off"));
  }
  // Several members make one stream, and the second member's checksum is compared too.
  pack("wb", 0, 700);
  pack("ab0", 700, whole.size() - 700);
  EXPECT_THAT(numbers_read(), ElementsAre(0, 1, 2));
  bytes = contents_of(packed);
  bytes[bytes.size() - 5] ^= 1;
  std::ofstream(packed) << bytes;
  EXPECT_THAT(numbers_read,
              ThrowsMessage<std::runtime_error>(HasSubstr("its checksum is wrong, so it is damaged")));
  pack("wb", 0, whole.size());
  std::ofstream(packed, std::ios::app) << std::string(100, '\0');  // as on a tape
  EXPECT_THAT(numbers_read(), ElementsAre(0, 1, 2));
  std::ofstream(packed, std::ios::app) << "something else";
  EXPECT_THAT(numbers_read, ThrowsMessage<std::runtime_error>(
                                HasSubstr("other bytes follow the data that gzip has compressed")));
}

// For any batch size, the error of the last archive does not become a batch of its own.
TEST_F(WebDatasetTest, WithSkippingAStreamEndsAfterAnErrorAtItsEnd) {
  const std::string path = numbers("short.tar", 0, 4);
  std::filesystem::resize_file(path, 4 * 1024 - 512);  // in the middle of the fourth
  const WebDataset dataset({path}, number_of);
  for (const std::int64_t batch_size : {1, 2, 3, 4}) {
    DataLoader loader(dataset, {.batch_size = batch_size, .bad_sample = BadSample::kSkip}, 0, 1);
    std::vector<std::int64_t> all;
    for (auto& batch : loader)
      for (const std::int64_t number : list(batch)) all.push_back(number);
    EXPECT_THAT(all, ElementsAre(0, 1, 2)) << batch_size;
  }
}

// The sample after it, which was read ahead, comes next.
TEST_F(WebDatasetTest, AnUnreadableBatchIsAnErrorAndCanBeSkipped) {
  const std::string cut = numbers("cut.tar", 0, 2), rest = numbers("rest.tar", 10, 12);
  std::filesystem::resize_file(cut, 2 * 1024 - 512);
  const WebDataset dataset({cut, rest}, number_of);
  DataLoader loader(dataset, {.batch_size = 1, .bad_sample = BadSample::kSkip}, 0, 1);
  std::vector<std::int64_t> all;
  const auto take = [&] {
    for (auto& batch : loader.epochs(1)) all.push_back(list(batch).at(0));
  };
  EXPECT_THAT(take, ThrowsMessage<std::runtime_error>(HasSubstr("none of its samples can be read")));
  EXPECT_THAT(all, ElementsAre(0));
  loader.skip_failed_batch();
  take();
  EXPECT_THAT(all, ElementsAre(0, 10, 11));
}

TEST_F(WebDatasetTest, AnUndecodableSampleIsNamedWithItsArchive) {
  const std::string first = numbers("first.tar", 0, 2),
                    words = archive("words.tar", {{"b.cls", "7"}, {"w.cls", "seven"}});
  EXPECT_THAT(([&] {
                all_of(WebDataset({first, words},
                                  [](const WebSample& sample) { return std::stoi(sample.parts.at("cls")); }));
              }),
              ThrowsMessage<std::runtime_error>(HasSubstr("sample w of " + words + ": ")));
  EXPECT_THAT(
      ([&] { all_of(WebDataset({first, words}, number_of)); }),
      ThrowsMessage<std::runtime_error>("sample w of " + words + " has a cls that is not a whole number"));
}

TEST_F(WebDatasetTest, BracesExpandAsInAShell) {
  for (const char* name :
       {"a_train_08", "a_train_09", "a_train_10", "b_train_08", "b_train_09", "b_train_10", "{x}1"})
    numbers(std::string(name) + ".tar", name[0] == 'b' ? 20 : 10, name[0] == 'b' ? 21 : 11);
  EXPECT_THAT(
      all_of(WebDataset({scratch_ / "{b,a}_train_{08..10}.tar", scratch_ / "{x}{1..1}.tar"}, number_of)),
      ElementsAre(20, 20, 20, 10, 10, 10, 10));
  std::filesystem::create_directory(scratch_ / "[v2]");
  std::filesystem::copy(scratch_ / "a_train_08.tar", scratch_ / "[v2]/a1.tar");
  EXPECT_THAT(all_of(WebDataset({scratch_ / "[v2]/a{1..1}.tar"}, number_of)), ElementsAre(10));
}

TEST_F(WebDatasetTest, AnArchiveWithoutItsLastBlocksHasItsSamplesAndAWarning) {
  const std::string path = numbers("short.tar", 0, 3);
  std::filesystem::resize_file(path, 3 * 1024);
  testing::internal::CaptureStderr();
  const auto samples = all_of(WebDataset({path}, number_of));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(samples, ElementsAre(0, 1, 2));
  EXPECT_THAT(said, HasSubstr(path + " ends without the blocks of zeros that tar writes last"));
  // Cut in the middle of contents that are not read.
  const std::string skipped = archive("skipped.tar", {{"0.cls", "0"}, {"notes", std::string(5000, 'x')}});
  std::filesystem::resize_file(skipped, 4096);
  EXPECT_THAT(([&] { all_of(WebDataset({skipped}, number_of)); }),
              ThrowsMessage<std::runtime_error>("cannot read " + skipped + ": it is cut off"));
  std::filesystem::resize_file(path, 0);
  EXPECT_THAT(([&] { all_of(WebDataset({path}, number_of)); }),
              ThrowsMessage<std::runtime_error>("cannot read " + path + ": it is empty"));
}

// np.save() wrote these: [[1, 2, 3], [4, 5, 6]] by rows and by columns.
TEST_F(WebDatasetTest, ANumpyPartIsATensor) {
  const std::string rows =
      npy_file("'<f4'", "(2, 3)", bytes_of_numbers(std::vector<float>{1, 2, 3, 4, 5, 6}));
  const std::string columns =
      npy_file("'<i2'", "(2, 3)", bytes_of_numbers(std::vector<std::int16_t>{1, 4, 2, 5, 3, 6}), true);
  const std::string path =
      archive("arrays.tar", {{"0.a.npy", rows},
                             {"0.b.npy", columns},
                             {"0.c.npy", npy_file("'|b1'", "()", "\7")},
                             {"0.d.npy", npy_file("'<f8'", "(0, 5)", "")},
                             {"0.big.npy", npy_file("'>f4'", "(1,)", "abcd")},
                             {"0.cut.npy", npy_file("'<f4'", "(2,)", "abcd")},
                             {"0.large.npy", npy_file("'<f4'", "(0, 281474976710656, 281474976710656)", "")},
                             {"0.not.npy", "an array"}});
  const WebSample sample = all_of(WebDataset({path}, as_it_is)).at(0);
  const at::Tensor whole = torch::tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_TRUE(sample.array("a.npy").equal(whole.to(at::kFloat)));
  EXPECT_TRUE(sample.array("b.npy").equal(whole.to(at::kShort)));
  EXPECT_TRUE(sample.array("b.npy").is_contiguous());
  EXPECT_TRUE(sample.array("c.npy").equal(torch::tensor(true)));
  EXPECT_EQ(sample.array("d.npy").sizes(), (std::vector<std::int64_t>{0, 5}));
  const auto refused = [&](const std::string& part, const std::string& why) {
    EXPECT_THAT([&] { sample.array(part); },
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("sample 0 of " + path), HasSubstr(why))));
  };
  refused("big.npy", "its array has the type >f4, which cannot be read");
  refused("cut.npy", "its array has 8 bytes, and 4 follow its header");
  refused("large.npy", "its header of a numpy array is damaged");
  refused("not.npy", "its header of a numpy array is damaged");
  refused("none.npy", "has no none.npy, but");
}

TEST_F(WebDatasetTest, AFileThatIsNotAnArchiveIsNamedWhenTheDatasetIsMade) {
  const auto refused = [](const std::string& first, const std::string& what) {
    EXPECT_THAT([&] { WebDataset({first}, number_of); },
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("cannot use " + first), HasSubstr(what))));
  };
  refused("https://host/train-0.tar", "it is a URL; download the file first");
  refused("https://host/train-{0..9}.tar?sig=1*", "it is a URL");
  refused("pipe:cat train-0.tar", "`pipe:` is not supported");
  refused(scratch_.path(), "it is a folder");
  const std::string file = scratch_ / "train.tar";
  std::ofstream(file) << "BZh91AY&SY and so on";
  refused(file, "it is compressed by bzip2 (bunzip2 it)");
  // A later archive is named when its turn comes.
  EXPECT_THAT(([&] { all_of(WebDataset({numbers("first.tar", 0, 2), file}, number_of)); }),
              ThrowsMessage<std::runtime_error>(HasSubstr("it is compressed by bzip2")));
}

TEST_F(WebDatasetTest, NamesAnArgumentThatItCannotUse) {
  const auto refuses = [](const std::vector<std::string>& archives, const WebDatasetOptions& options,
                          const std::string& reason) {
    EXPECT_THAT([&] { WebDataset(archives, number_of, options); },
                ThrowsMessage<std::invalid_argument>(reason));
  };
  refuses({}, {}, "WebDataset: the number of archives = 0 must be at least 1");
  refuses({"a"}, {.shuffle = -1}, "WebDataset: shuffle = -1 must be from 0 to 16777216 samples");
  refuses({"a-{1..x}.tar"}, {},
          "WebDataset: archive = a-{1..x}.tar must be with numbers in its braces, as in {000..146}");
  refuses({"a-{2..1}.tar"}, {}, "WebDataset: archive = a-{2..1}.tar must be with the smaller number first");
  refuses({"a-{0..99999999}.tar"}, {},
          "WebDataset: archive = a-{0..99999999}.tar must be at most 10000000 archives");
  refuses({"a-{0..9999}{0..9999}.tar"}, {},
          "WebDataset: archive = a-{0..9999}{0..9999}.tar must be at most 10000000 archives");
  refuses({"a-{0..8..2}.tar"}, {},
          "WebDataset: archive = a-{0..8..2}.tar must be without a step: "
          "all archives from the first to the last are read");
  refuses({"{a,{b,c}}.tar"}, {}, "WebDataset: archive = {a,{b,c}}.tar must be without braces in braces");
  refuses({"train-*.tar"}, {},
          "WebDataset: archive = train-*.tar must be without *, ? and [: give the numbers, as in {000..146}");
}

}  // namespace
}  // namespace muster::web
