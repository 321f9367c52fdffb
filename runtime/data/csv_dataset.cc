#include <algorithm>
#include <fmt/ranges.h>
#include <muster/csv_dataset.h>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <torch/torch.h>

#include "common/base/text.h"
#include "runtime/data/argument.h"
#include "runtime/data/csv.h"
#include "runtime/data/file_kind.h"
#include "runtime/data/mapped_file.h"

namespace muster {

namespace {

std::string_view trimmed(std::string_view text) {
  const auto begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// The numbers of some columns, row by row.
class Numbers {
 public:
  explicit Numbers(at::ScalarType type) : type_(type) {}
  void add_place(std::int64_t place) {
    if (type_ == at::kLong)
      whole_.push_back(place);
    else
      real_.push_back(static_cast<double>(place));
  }
  // False if it is not a number of this type.
  bool add(std::string_view text) {
    if (type_ == at::kLong) {
      const auto number = parse_number<std::int64_t>(text);
      if (number) whole_.push_back(*number);
      return number.has_value();
    }
    const auto number = parse_number<double>(text);
    if (number) real_.push_back(*number);
    return number.has_value();
  }
  const char* description() const { return type_ == at::kLong ? "a whole number" : "a number"; }
  at::Tensor tensor(at::IntArrayRef shape) const {
    return type_ == at::kLong ? torch::tensor(whole_).reshape(shape)
                              : torch::tensor(real_, at::kDouble).to(type_).reshape(shape);
  }

 private:
  at::ScalarType type_;
  std::vector<std::int64_t> whole_;
  std::vector<double> real_;
};

// A column that is used, and where it stands in a line.
struct Column {
  std::string name;
  std::size_t place;
  const std::vector<std::string>* words;  // null: numbers
};

// Reads lines of one file into numbers; what is wrong is thrown with the file's name and the line.
class Table {
 public:
  Table(const std::string& path, std::string_view text, const CsvDatasetOptions& options)
      : path_(path), options_(options), reader_(text, options.separator) {}

  // The names of all columns. The first line, where it names none, is left in `line`.
  std::vector<std::string> read_names();
  bool next_line();
  Column column(const std::vector<std::string>& names, const std::string& name) const;
  void take(const Column& column, Numbers& numbers) const;

 private:
  [[noreturn]] void refuse_line(const std::string& what) const {
    throw std::runtime_error(fmt::format("{}:{}: {}", path_, reader_.line(), what));
  }
  [[noreturn]] void refuse_file(const std::string& what) const {
    throw std::runtime_error(fmt::format("cannot use {}: {}", path_, what));
  }

  const std::string& path_;
  const CsvDatasetOptions& options_;
  CsvReader reader_;
  std::vector<std::string> line_;
  std::size_t width_ = 0;
  bool held_back_ = false;  // the line has been read, and not been used
};

std::vector<std::string> Table::read_names() {
  if (!next_line()) refuse_file("it is empty");
  width_ = line_.size();
  std::vector<std::string> names = line_;
  if (!options_.header) {
    held_back_ = true;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::to_string(i);
  }
  for (std::string& name : names) {
    name = trimmed(name);
    if (std::ranges::count(names, name) > 1)
      refuse_line(fmt::format("two columns are called \"{}\"", one_line(name)));
  }
  return names;
}

bool Table::next_line() {
  if (std::exchange(held_back_, false)) return true;
  const auto read = reader_.next(line_);
  if (!read) refuse_line(read.error().message());
  if (*read && width_ > 0 && line_.size() != width_) {
    refuse_line(fmt::format("it has {} fields, and the first line {}", line_.size(), width_));
  }
  return *read;
}

Column Table::column(const std::vector<std::string>& names, const std::string& name) const {
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    refuse_file(
        one_line(fmt::format("it has no column \"{}\"; there are \"{}\"", name, fmt::join(names, "\", \""))));
  const auto words = options_.categories.find(name);
  return {.name = name,
          .place = static_cast<std::size_t>(found - names.begin()),
          .words = words == options_.categories.end() ? nullptr : &words->second};
}

void Table::take(const Column& column, Numbers& numbers) const {
  const std::string& text = line_[column.place];
  if (column.words != nullptr) {
    const auto found = std::ranges::find(*column.words, text);
    if (found == column.words->end()) {
      refuse_line(fmt::format("column \"{}\": \"{}\" is none of \"{}\"", column.name, one_line(text),
                              fmt::join(*column.words, "\", \"")));
    }
    return numbers.add_place(found - column.words->begin());
  }
  if (!numbers.add(trimmed(text))) {
    refuse_line(
        fmt::format("column \"{}\": \"{}\" is not {}", column.name, one_line(text), numbers.description()));
  }
}

void check_options(const CsvDatasetOptions& options) {
  if (options.label.empty())
    throw std::invalid_argument("CsvDataset: label = \"\" must be the name of a column");
  const auto check_type = [](const char* option, at::ScalarType type) {
    check_argument(type == at::kFloat || type == at::kDouble || type == at::kLong, option,
                   c10::toString(type), "Float, Double or Long");
  };
  check_type("CsvDataset: dtype", options.dtype);
  check_type("CsvDataset: label_dtype", options.label_dtype);
  check_argument(options.separator != '"' && options.separator != '\n' && options.separator != '\r',
                 "CsvDataset: separator", static_cast<int>(options.separator),
                 "neither a quote nor a line end");
}

}  // namespace

CsvDataset::CsvDataset(const std::string& path, const CsvDatasetOptions& options)
    : path_(path), rows_(read(options)) {}

TensorDataset<Example> CsvDataset::read(const CsvDatasetOptions& options) {
  check_options(options);
  if (const Status usable = check_is_file_of(path_, {}); !usable)
    throw std::runtime_error(usable.error().message());
  const auto file = MappedFile::open(path_);
  if (!file) throw std::runtime_error(file.error().message());
  const auto bytes = file->bytes();
  Table table(path_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options);
  const std::vector<std::string> names = table.read_names();
  columns_ = options.columns;
  if (columns_.empty())
    std::ranges::copy_if(names, std::back_inserter(columns_),
                         [&](const std::string& name) { return name != options.label; });
  const Column label = table.column(names, options.label);
  std::vector<Column> columns;
  for (const std::string& name : columns_) columns.push_back(table.column(names, name));
  for (const auto& [name, words] : options.categories) table.column(names, name);
  Numbers data(options.dtype), target(options.label_dtype);
  std::int64_t count = 0;
  for (; table.next_line(); ++count) {
    for (const Column& column : columns) table.take(column, data);
    table.take(label, target);
  }
  if (count == 0) throw std::runtime_error(fmt::format("cannot use {}: it has no lines of data", path_));
  return TensorDataset(data.tensor({count, std::ssize(columns)}), target.tensor({count}));
}

}  // namespace muster
