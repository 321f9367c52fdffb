// A table of numbers and words in a text file, one sample a line: columns as data, one of them the label.
//
//   const std::vector<std::string> species = {"setosa", "versicolor", "virginica"};
//   muster::CsvDataset dataset("iris.csv", {.label = "species", .categories = {{"species", species}}});
//
// Quoted as RFC 4180 has it; plain, or compressed by gzip or zstd. The file is read once, into memory, as
// numbers. Safe to read from several threads.
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
  std::string label = {};                 // the column of the target; must be given
  std::vector<std::string> columns = {};  // those of the data, in this order; empty: all but the label
  // The first line names the columns. Without it they are "0", "1", "2", ...
  bool header = true;
  char separator = ',';
  // Columns of words: each word becomes its place in the list, from 0.
  std::map<std::string, std::vector<std::string>> categories = {};
  // What an empty field of the data's numbers counts as, and one of na_values; NaN, say. Without it they are
  // errors, but for "nan" in a column of floats. A missing label is always an error.
  std::optional<double> fill_na = {};
  std::vector<std::string> na_values = {"NA",   "N/A",  "n/a",  "NaN",  "nan",
                                        "NULL", "null", "None", "<NA>", "#N/A"};
  char decimal = '.';
  std::optional<char> thousands = {};  // "1,234": passed over in numbers
  std::optional<char> comment = {};    // from there on a line is not read
  std::int64_t skiprows = 0;           // lines at the begin, before that of the names
  // kFloat, kDouble or kLong. Words that are no numbers of that type are errors; "nan" is one of a float,
  // "1e400" an infinite one, and true and false are 1 and 0.
  at::ScalarType dtype = at::ScalarType::Float;
  at::ScalarType label_dtype = at::ScalarType::Long;
};

// Samples: data [columns] of dtype, target [] of label_dtype.
class CsvDataset : public Dataset<> {
 public:
  // std::runtime_error names file, line and column, what stands there, and what would be right;
  // std::invalid_argument an option that cannot be used.
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
