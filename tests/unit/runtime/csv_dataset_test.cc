#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/csv_dataset.h>
#include <muster/data_loader.h>
#include <stdexcept>
#include <torch/torch.h>

#include "tests/scratch_directory.h"

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
              ThrowsMessage<std::out_of_range>("index 2 is none of the 2 samples of " + path_));
}

TEST_F(CsvDatasetTest, ColumnsComeInTheOrderAskedFor) {
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

TEST_F(CsvDatasetTest, QuotesAreThoseOfTheStandard) {
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
  expect_refused(head + ",setosa\n", species_, ":3: column \"a\": \"\" is not a number");
  expect_refused(head + "2,setsoa\n", species_,
                 ":3: column \"species\": \"setsoa\" is none of \"setosa\", \"virginica\"");
  expect_refused(head + "\"2,setosa\n3,setosa\n", species_, ":3: a quote in it is never closed");
  expect_refused(head + "\"2\"x,setosa\n", species_,
                 ":3: after the quotes of \"2\" there is more than the end of the field");
  expect_refused(head + "2\"0,setosa\n", species_, ":3: there is a quote in the middle of the field 2\"0");
  expect_refused(head + "\"2\n\x1b\"x,setosa\n", species_,
                 ":3: after the quotes of \"2??\" there is more than the end of the field");
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

TEST_F(CsvDatasetTest, AFileOfAnotherKindIsNamed) {
  const auto refused = [&](const std::string& text, const std::string& what) {
    EXPECT_THAT([&] { read(text, species_); },
                ThrowsMessage<std::runtime_error>("cannot use " + path_ + ": it is " + what));
  };
  refused("\x1f\x8b\x08 and so on", "compressed by gzip (gunzip it)");
  refused("PAR1 and so on", "a Parquet file");
  refused("<html>404</html>", "a page of HTML, such as a server sends in place of a file");
  EXPECT_THAT([&] { read("a,\x1b[2Jb,species\n", {.label = "c"}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("there are \"a\", \"?[2Jb\", \"species\"")));
  EXPECT_THAT([&] { CsvDataset("s3://bucket/table.csv", species_); },
              ThrowsMessage<std::runtime_error>(HasSubstr("it is an address, and files are read")));
}

TEST_F(CsvDatasetTest, SaysWhichOptionCannotBeUsed) {
  const auto refused = [&](const CsvDatasetOptions& options, const std::string& reason) {
    EXPECT_THAT([&] { read("a,b\n1,2\n", options); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(reason)));
  };
  refused({}, "CsvDataset: label = \"\" must be the name of a column");
  refused({.label = "b", .dtype = at::kBool}, "CsvDataset: dtype = Bool must be Float, Double or Long");
  refused({.label = "b", .label_dtype = at::kShort}, "CsvDataset: label_dtype = Short must be");
  refused({.label = "b", .separator = '"'}, "CsvDataset: separator = 34 must be");
}

}  // namespace
}  // namespace muster
