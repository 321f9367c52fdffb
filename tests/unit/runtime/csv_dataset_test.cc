#include <cmath>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <muster/data/csv_dataset.h>
#include <muster/data/data_loader.h>
#include <stdexcept>
#include <torch/torch.h>
#include <zlib.h>

#include "tests/scratch_directory.h"
#include "tests/unit/runtime/zstd_file.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CsvDatasetTest : public testing::Test {
 protected:
  CsvDataset read(const std::string& text, const CsvDatasetOptions& options) {
    std::ofstream(path_, std::ios::binary) << text;
    return {path_, options};
  }
  void expect_refused(const std::string& text, const CsvDatasetOptions& options, const std::string& reason) {
    EXPECT_THAT([&] { read(text, options); }, ThrowsMessage<std::runtime_error>(HasSubstr(path_ + reason)))
        << text;
  }

  ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "table.csv";
  const CsvDatasetOptions species_{.label = "species", .categories = {{"species", {"setosa", "virginica"}}}};
};

TEST_F(CsvDatasetTest, ColumnsAreDataAndOneIsTheLabel) {
  const CsvDataset dataset = read("a,species,b\n1,virginica,2.5\n-3e2,setosa, 4 \n", species_);
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_THAT(dataset.columns(), ElementsAre("a", "b"));
  EXPECT_TRUE(dataset.get(1).data.equal(torch::tensor({-300.0F, 4.0F})));
  const std::vector<std::int64_t> both{0, 1};
  EXPECT_TRUE(dataset.get_batch(both).target.equal(torch::tensor({1, 0}, at::kLong)));
  EXPECT_THAT([&] { dataset.get(2); },
              ThrowsMessage<std::out_of_range>("index 2 is out of range: " + path_ + " has 2 samples"));
}

TEST_F(CsvDatasetTest, ColumnsHaveTheRequestedOrder) {
  const CsvDataset dataset = read(
      "x,y,z\n1,2,3\n", {.label = "y", .columns = {"z", "x"}, .dtype = at::kLong, .label_dtype = at::kFloat});
  EXPECT_TRUE(dataset.get(0).data.equal(torch::tensor({3, 1}, at::kLong)));
  EXPECT_TRUE(dataset.get(0).target.equal(torch::scalar_tensor(2.0F)));
}

TEST_F(CsvDatasetTest, WithoutAHeaderColumnsAreNumbered) {
  const CsvDataset dataset = read("7;8;9\n4;5;6", {.label = "2", .header = false, .separator = ';'});
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_TRUE(dataset.get(0).data.equal(torch::tensor({7.0F, 8.0F})));
  EXPECT_EQ(dataset.get(1).target.item<std::int64_t>(), 6);
}

TEST_F(CsvDatasetTest, QuotesFollowTheStandard) {
  const CsvDatasetOptions options{.label = "kind of, \"thing\"",
                                  .categories = {{"kind of, \"thing\"", {"a,b", "c\r\nd", "say \"e\"", ""}}}};
  const CsvDataset dataset = read(
      "\xef\xbb\xbf\"kind of, \"\"thing\"\"\",n\r\n"
      "\"a,b\",1\r\n\r\n\"c\r\nd\",\"2\"\r\n\"say \"\"e\"\"\",3\r\n,4\r\n\"\",5\r\n",
      options);
  ASSERT_EQ(dataset.size(), 5);
  const std::vector<std::int64_t> all{0, 1, 2, 3, 4};
  EXPECT_TRUE(dataset.get_batch(all).target.equal(torch::tensor({0, 1, 2, 3, 3}, at::kLong)));
  EXPECT_TRUE(dataset.get_batch(all).data.flatten().equal(torch::tensor({1.0F, 2.0F, 3.0F, 4.0F, 5.0F})));
}

TEST_F(CsvDatasetTest, AMalformedLineIsNamed) {
  const std::string head = "a,species\n1,setosa\n";
  expect_refused(head + "2\n", species_, ":3: it has 1 fields, and the first line 2");
  expect_refused(head + "2,setosa,\n", species_, ":3: it has 3 fields, and the first line 2");
  expect_refused(head + "x2,setosa\n", species_, ":3: column \"a\": \"x2\" is not a number");
  expect_refused(head + "2.5.1,setosa\n", species_, ":3: column \"a\": \"2.5.1\" is not a number");
  expect_refused(head + ",setosa\n", species_,
                 ":3: column \"a\": it is empty; set fill_na to give empty fields a value");
  expect_refused(head + "2,setsoa\n", species_,
                 ":3: column \"species\": \"setsoa\" is none of \"setosa\", \"virginica\"");
  expect_refused(head + "\"2,setosa\n3,setosa\n", species_, ":3: a quote in it is never closed");
  expect_refused(head + "\"2\"x,setosa\n", species_,
                 ":3: after the closing quote of \"2\" there must be the end of the field");
  expect_refused(head + "2\"0,setosa\n", species_, ":3: there is a quote in the middle of the field 2\"0");
  expect_refused(head + "\"2\n\x1b\"x,setosa\n", species_,
                 ":3: after the closing quote of \"2??\" there must be the end of the field");
  expect_refused("a,b\n1,2.5\n", {.label = "b"}, ":2: column \"b\": \"2.5\" is not a whole number");
}

TEST_F(CsvDatasetTest, LinesAreCountedOverQuotedLineEndsAndEmptyLines) {
  const CsvDatasetOptions options{.label = "t", .columns = {"n"}, .categories = {{"t", {"x\n\ny"}}}};
  expect_refused("n,t\n1,\"x\n\ny\"\n\nbad,\"x\n\ny\"\n", options, ":6: column \"n\": \"bad\"");
}

TEST_F(CsvDatasetTest, SaysWhatIsWrongWithTheFile) {
  EXPECT_THAT([&] { CsvDataset("/nowhere/table.csv", species_); },
              ThrowsMessage<std::runtime_error>(HasSubstr("cannot open /nowhere/table.csv: No such file")));
  expect_refused("", species_, ": it is empty");
  expect_refused("a,species\n", species_, ": it has no lines of data");
  expect_refused("a,b\n1,2\n", species_, ": it has no column \"species\"; there are \"a\", \"b\"");
  expect_refused("a,b\n1,2\n", {.label = "a", .columns = {"c"}}, ": it has no column \"c\"");
  expect_refused("a,b\n1,2\n", {.label = "a", .categories = {{"colour", {"red"}}}},
                 ": it has no column \"colour\"");
  expect_refused("a,b,a\n1,2,3\n", {.label = "b"}, ":1: two columns are called \"a\"");
}

// Each gives the same as pandas.read_csv().
TEST_F(CsvDatasetTest, ReadsNumbersInManyForms) {
  const auto values = [&](const std::string& field, CsvDatasetOptions options = {}) {
    options.label = "y";
    options.dtype = at::kDouble;
    options.separator = ';';
    return read("x;y\n" + field + ";1\n", options).get(0).data.item<double>();
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(values("+1.5"), 1.5);
  EXPECT_EQ(values("1e400"), kInfinity);
  EXPECT_EQ(values("-1e400"), -kInfinity);
  EXPECT_EQ(values("1e-400"), 0);
  EXPECT_EQ(values("True"), 1);
  EXPECT_EQ(values("false"), 0);
  EXPECT_EQ(values("1,5", {.decimal = ','}), 1.5);
  EXPECT_EQ(values("-1.234.567,5", {.decimal = ',', .thousands = '.'}), -1234567.5);
  EXPECT_TRUE(std::isnan(values("nan")));
  for (const char* field : {"", " ", "NA", "<NA>"}) {
    EXPECT_TRUE(std::isnan(values(field, {.fill_na = std::numeric_limits<double>::quiet_NaN()}))) << field;
    EXPECT_EQ(values(field, {.fill_na = -1}), -1) << field;
  }
  EXPECT_EQ(values("?", {.fill_na = -1, .na_values = {"?"}}), -1);
  EXPECT_THROW(values("1.234", {.decimal = ','}), std::runtime_error);
  expect_refused("x,y\n1,\n", {.label = "y", .fill_na = 0}, ":2: column \"y\": it is empty");
  for (const char* field : {"+-1", "++1", "1e", "0x10", "1 2", "NA", "?"})
    EXPECT_THROW(values(field), std::runtime_error) << field;
  EXPECT_TRUE(read("x,y\n+7,True\n,2\n", {.label = "y", .fill_na = 3, .dtype = at::kLong})
                  .get_batch(std::vector<std::int64_t>{0, 1})
                  .data.equal(torch::tensor({{7}, {3}}, at::kLong)));
}

TEST_F(CsvDatasetTest, LinesMayBeCommentsOrSkipped) {
  const CsvDatasetOptions options{.label = "y", .comment = '#', .skiprows = 2};
  const CsvDataset dataset =
      read("made by a tool\nof \"theirs\n# none\nx,y# names\n\n#\n1,2# one\n\"3\",\"4\"# more\n#", options);
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.get(1).data.item<float>(), 3);
  EXPECT_EQ(dataset.get(1).target.item<std::int64_t>(), 4);
  EXPECT_EQ(read("a\nb\nx,y\n\"1#2\",7\n",
                 {.label = "y", .categories = {{"x", {"1#2"}}}, .comment = '#', .skiprows = 2})
                .get(0)
                .target.item<std::int64_t>(),
            7);
  expect_refused("a\nb\nx,y\n# one\n1\n", options, ":5: it has 1 fields, and the first line 2");
}

TEST_F(CsvDatasetTest, ReadsGzipFiles) {
  const auto pack = [this](const char* mode, const char* text) {
    const gzFile file = gzopen(path_.c_str(), mode);
    gzputs(file, text);
    gzclose(file);
  };
  pack("wb", "a,species\n1,virginica\n2.5,setosa\n");
  const CsvDataset dataset(path_, species_);
  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.get(1).data.item<float>(), 2.5F);
  // A second member whose beginning is damaged is not the end of the file.
  const auto first_bytes = std::filesystem::file_size(path_);
  pack("ab", "3,virginica\n");
  EXPECT_EQ(CsvDataset(path_, species_).size(), 3);
  std::fstream(path_, std::ios::binary | std::ios::in | std::ios::out)
      .seekp(static_cast<std::streamoff>(first_bytes))
      .put('x');
  EXPECT_THAT([&] { CsvDataset(path_, species_); },
              ThrowsMessage<std::runtime_error>("cannot read " + path_ +
                                                ": other bytes follow the data that gzip has compressed"));
  std::filesystem::resize_file(path_, first_bytes);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 3);
  EXPECT_THAT([&] { CsvDataset(path_, species_); },
              ThrowsMessage<std::runtime_error>("cannot read " + path_ + ": it is cut off"));
  pack("wb", "PAR1\x15 and so on");
  EXPECT_THAT([&] { CsvDataset(path_, species_); },
              ThrowsMessage<std::runtime_error>("cannot use " + path_ + ": unpacked, it is a Parquet file"));
}

#ifdef MUSTER_ZSTD
TEST_F(CsvDatasetTest, ReadsZstdFiles) {
  const std::string frames = zstd_frame("a,species\n1,virginica\n") + zstd_frame("2.5,setosa\n", false);
  const CsvDataset dataset = read(frames, species_);
  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.get(1).data.item<float>(), 2.5F);
  EXPECT_THAT([&] { read(frames.substr(0, frames.size() - 1), species_); },
              ThrowsMessage<std::runtime_error>("cannot read " + path_ + ": it is cut off"));
}
#endif

TEST_F(CsvDatasetTest, AFileOfAnotherKindIsNamed) {
  const auto refused = [&](const std::string& text, const std::string& what) {
    EXPECT_THAT([&] { read(text, species_); },
                ThrowsMessage<std::runtime_error>("cannot use " + path_ + ": it is " + what));
  };
  refused("BZh91AY&SY and so on", "compressed by bzip2 (bunzip2 it)");
  refused("PAR1\x15 and so on", "a Parquet file");
  EXPECT_EQ(read("PAR1,species\n1,setosa\n", species_).size(), 1);
  refused("<html>404</html>", "an HTML page, such as a server sends instead of a file");
  EXPECT_THAT([&] { read("a,\x1b[2Jb,species\n", {.label = "c"}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("there are \"a\", \"?[2Jb\", \"species\"")));
  EXPECT_THAT([&] { CsvDataset("s3://bucket/table.csv", species_); },
              ThrowsMessage<std::runtime_error>(HasSubstr("it is a URL; download the file first")));
}

TEST_F(CsvDatasetTest, NamesAWrongOption) {
  const auto refused = [&](const CsvDatasetOptions& options, const std::string& reason) {
    EXPECT_THAT([&] { read("a,b\n1,2\n", options); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(reason)));
  };
  refused({}, "CsvDataset: label = \"\" must be the name of a column");
  refused({.label = "b", .dtype = at::kBool}, "CsvDataset: dtype = Bool must be Float, Double or Long");
  refused({.label = "b", .label_dtype = at::kShort}, "CsvDataset: label_dtype = Short must be");
  refused({.label = "b", .separator = '"'},
          "CsvDataset: separator = \" must be a letter that is not a quote, line end");
  refused({.label = "b", .decimal = ','}, "CsvDataset: decimal = , must be a letter that is not a quote");
  refused({.label = "b", .thousands = '.'}, "CsvDataset: thousands = . must be a letter that is not a quote");
  refused({.label = "b", .comment = '\n'}, "CsvDataset: comment = 10 must be a letter that is not a quote");
  refused({.label = "b", .skiprows = -1}, "CsvDataset: skiprows = -1 must be at least 0");
  refused({.label = "b", .thousands = '-'}, "CsvDataset: thousands = - must be a letter that is not a quote");
  refused({.label = "b", .fill_na = 0.5, .dtype = at::kLong},
          "CsvDataset: fill_na = 0.5 must be a whole number where");
}

}  // namespace
}  // namespace muster
