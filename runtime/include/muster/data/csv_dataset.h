// A table of numbers and words in a text file, one sample per line: some columns are the data, one is the
// label.
//
//   const std::vector<std::string> species = {"setosa", "versicolor", "virginica"};
//   muster::CsvDataset dataset("iris.csv", {.label = "species", .categories = {{"species", species}}});
//
// Quoting follows RFC 4180. The file may be compressed with gzip or zstd. It is read once, and kept in memory
// as numbers. Safe to read from several threads.
#pragma once

#include <c10/core/ScalarType.h>
#include <cstdint>
#include <map>
#include <muster/data/dataset.h>
#include <muster/data/tensor_dataset.h>
#include <optional>
#include <string>
#include <vector>

namespace muster {

struct CsvDatasetOptions {
  std::string label = {};                 // the column of the target; required
  std::vector<std::string> columns = {};  // the columns of the data, in this order; empty: all but the label
  // true: the first line has the names of the columns. false: the names are "0", "1", "2", ...
  bool header = true;
  char separator = ',';
  // The words that can be in a column, by the column's name. A word is replaced by its place in the list,
  // from 0.
  std::map<std::string, std::vector<std::string>> categories = {};
  // The value, such as NaN, for data fields that are empty or in na_values. Without this value such fields
  // are errors, except "nan" in a column of floats. A missing label is always an error.
  std::optional<double> fill_na = {};
  std::vector<std::string> na_values = {"NA",   "N/A",  "n/a",  "NaN",  "nan",
                                        "NULL", "null", "None", "<NA>", "#N/A"};
  char decimal = '.';
  std::optional<char> thousands = {};  // ignored inside numbers: "1,234"
  std::optional<char> comment = {};    // the rest of the line after it is ignored
  std::int64_t skiprows = 0;           // lines to skip at the start, before the line of names
  // kFloat, kDouble or kLong. A word that is not a number of that type is an error. "nan" is a float, "1e400"
  // an infinite float; true and false are 1 and 0.
  at::ScalarType dtype = at::ScalarType::Float;
  at::ScalarType label_dtype = at::ScalarType::Long;
};

// Samples: data [columns] of dtype, target [] of label_dtype.
class CsvDataset : public Dataset<> {
 public:
  // Throws std::invalid_argument, which names an option that cannot be used. Throws std::runtime_error if the
  // file cannot be used; the message has the file, line, column, the text there and what would be right.
  CsvDataset(const std::string& path, const CsvDatasetOptions& options);

  std::int64_t size() const override { return rows_.size(); }
  Example get(std::int64_t index) const override {
    detail::check_index(*this, index);
    return rows_.get(index);
  }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    detail::check_indices(*this, indices);
    return rows_.get_batch(indices);
  }
  std::string name() const override { return path_; }
  const std::vector<std::string>& columns() const { return columns_; }  // of the data

 private:
  TensorDataset<Example> read(const CsvDatasetOptions& options);

  std::string path_;
  std::vector<std::string> columns_;
  TensorDataset<Example> rows_;
};

}  // namespace muster
