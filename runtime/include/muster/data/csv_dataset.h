// A table of numbers and words in a text file, one sample per line: some columns are the data, one is the
// label.
//
//   const std::vector<std::string> species = {"setosa", "versicolor", "virginica"};
//   muster::CsvDataset dataset("iris.csv", {.label = "species", .categories = {{"species", species}}});
//
// Quoting follows RFC 4180. The file may be compressed with gzip or zstd. It is read once, and kept in memory
// as numbers. Several threads can read it at once.
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
  // For each column that contains words: the column's name, and the list of its words. A word is replaced by
  // its place in the list, from 0.
  std::map<std::string, std::vector<std::string>> categories = {};
  // If a data field is empty or in na_values, it is read as this value, such as NaN. Without this value such
  // a field is an error, except "nan" in a column of floats. A missing label is always an error.
  std::optional<double> fill_na = {};
  std::vector<std::string> na_values = {"NA",   "N/A",  "n/a",  "NaN",  "nan",
                                        "NULL", "null", "None", "<NA>", "#N/A"};
  char decimal = '.';
  std::optional<char> thousands = {};  // ignored inside numbers: "1,234"
  std::optional<char> comment = {};    // the rest of the line after it is ignored
  std::int64_t skiprows = 0;           // lines to skip at the start, before the line of names
  // kFloat, kDouble or kLong. If a word is not a number of this type, an error is thrown. For floating-point
  // types, "nan" is NaN and "1e400" is infinity. "true" and "false" are read as 1 and 0.
  at::ScalarType dtype = at::ScalarType::Float;
  at::ScalarType label_dtype = at::ScalarType::Long;
};

// In a sample, `data` has the shape [columns] and the type dtype, and `target` has the shape [] and the type
// label_dtype.
class CsvDataset : public Dataset<> {
 public:
  // If an option cannot be used, throws std::invalid_argument, which names it. If the file cannot be used,
  // throws std::runtime_error. Its message has the file, the line, the column, the text at that place, and
  // what would be right there.
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
