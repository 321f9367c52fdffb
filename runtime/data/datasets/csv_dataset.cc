#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/ranges.h>
#include <limits>
#include <muster/data/csv_dataset.h>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <torch/torch.h>

#include "common/base/text.h"
#include "runtime/data/argument.h"
#include "runtime/data/datasets/compressed_file.h"
#include "runtime/data/datasets/csv.h"
#include "runtime/data/datasets/file_kind.h"
#include "runtime/data/datasets/mapped_file.h"

namespace muster {

namespace {

std::string_view trimmed(std::string_view text) {
  const auto begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// Reads a number as Python's float() does: too large numbers become infinite, and too small numbers become 0.
std::optional<double> real_number(std::string_view text) {
  const auto read = [text](auto& number) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    return end == text.data() + text.size() ? code : std::errc::invalid_argument;
  };
  double number = 0;
  long double wider = 0;
  const std::errc code = read(number);
  if (code == std::errc()) return number;
  if (code != std::errc::result_out_of_range) return std::nullopt;
  if (read(wider) == std::errc()) return static_cast<double>(wider);
  const bool is_small = text.find_first_of("eE") != std::string_view::npos &&
                        text.substr(text.find_first_of("eE") + 1).starts_with('-');
  const double most = is_small ? 0 : std::numeric_limits<double>::infinity();
  return text.starts_with('-') ? -most : most;
}

// Converts a number to the form that from_chars() reads. If some characters have to be changed, the result is
// a view of `changed`. Otherwise the result is a part of `text`.
std::string_view plain_number(std::string_view text, const CsvDatasetOptions& options, std::string& changed) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  if (options.decimal == '.' && !options.thousands) return text;
  changed.clear();
  for (const char letter : text) {
    if (letter == '.' && options.decimal != '.' && options.thousands != '.') return {};
    if (letter != options.thousands) changed += letter == options.decimal ? '.' : letter;
  }
  return changed;
}

// Collects the numbers of some columns, row by row.
class Numbers {
 public:
  Numbers(at::ScalarType type, const CsvDatasetOptions& options) : type_(type), options_(options) {}
  void add_place(std::int64_t place) {
    if (type_ == at::kLong)
      whole_.push_back(place);
    else
      real_.push_back(static_cast<double>(place));
  }
  // Adds the number in `text`. The text can also be true or false. If it is none of these, or does not fit
  // the type, returns false.
  bool add(std::string_view text) {
    const std::string_view plain = plain_number(text, options_, changed_);
    if (type_ == at::kLong) {
      if (const auto number = parse_number<std::int64_t>(plain)) {
        whole_.push_back(*number);
        return true;
      }
    } else if (const auto number = real_number(plain)) {
      real_.push_back(*number);
      return true;
    }
    const auto flag = flag_of(text);
    if (flag) add_place(*flag);
    return flag.has_value();
  }
  void add_missing() {
    if (type_ == at::kLong)
      whole_.push_back(static_cast<std::int64_t>(*options_.fill_na));
    else
      real_.push_back(*options_.fill_na);
  }
  const char* description() const { return type_ == at::kLong ? "a whole number" : "a number"; }
  at::Tensor tensor(at::IntArrayRef shape) const {
    return type_ == at::kLong ? torch::tensor(whole_).reshape(shape)
                              : torch::tensor(real_, at::kDouble).to(type_).reshape(shape);
  }

 private:
  static std::optional<std::int64_t> flag_of(std::string_view text) {
    for (const std::string_view yes : {"True", "true", "TRUE"})
      if (text == yes) return 1;
    for (const std::string_view no : {"False", "false", "FALSE"})
      if (text == no) return 0;
    return std::nullopt;
  }

  at::ScalarType type_;
  const CsvDatasetOptions& options_;
  std::vector<std::int64_t> whole_;
  std::vector<double> real_;
  std::string changed_;
};

// A column to read, and its place in a line.
struct Column {
  std::string name;
  std::size_t place;
  const std::vector<std::string>* words;  // null: numbers
};

// Reads the lines of one file into numbers. Errors name the file and the line.
class Table {
 public:
  Table(const std::string& path, std::string_view text, const CsvDatasetOptions& options)
      : path_(path), options_(options), reader_(text, options.separator, options.comment, options.skiprows) {}

  // Returns the names of all columns. With a header, the first line has them. Without a header, they are "0",
  // "1" and so on. Then the first line is data, and next_line() gives it once more.
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
  bool held_back_ = false;  // the following next_line() gives the current line again
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
  const std::string_view word = trimmed(text);
  const bool is_missing =
      word.empty() || std::ranges::find(options_.na_values, word) != options_.na_values.end();
  if (is_missing && options_.fill_na && column.name != options_.label) return numbers.add_missing();
  if (word.empty())
    refuse_line(fmt::format("column \"{}\": it is empty; set fill_na to give empty fields a value",
                            one_line(column.name)));
  if (!numbers.add(word)) {
    refuse_line(
        fmt::format("column \"{}\": \"{}\" is not {}", column.name, one_line(text), numbers.description()));
  }
}

// Returns the character, or its code if it cannot be printed.
std::string letter_of(char letter) {
  return letter > ' ' && letter < 0x7f ? std::string(1, letter) : std::to_string(static_cast<int>(letter));
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
  check_argument(options.skiprows >= 0, "CsvDataset: skiprows", options.skiprows, "at least 0");
  const double fill = options.fill_na.value_or(0);
  const bool is_int64 = fill == std::floor(fill) && std::abs(fill) < 0x1p63;
  check_argument(is_int64 || options.dtype != at::kLong, "CsvDataset: fill_na", fill,
                 "a whole number where dtype is Long");
  std::string used = "\"\n\r0123456789+-";
  const auto check_letter = [&used](const char* option, char letter) {
    check_argument(!used.contains(letter), option, letter_of(letter),
                   "a letter that is not a quote, line end, digit or sign, nor used by another option");
    used += letter;
  };
  check_letter("CsvDataset: separator", options.separator);
  check_letter("CsvDataset: decimal", options.decimal);
  if (options.thousands) check_letter("CsvDataset: thousands", *options.thousands);
  if (options.comment) check_letter("CsvDataset: comment", *options.comment);
}

std::string unpacked_text(const std::string& path) {
  auto file = CompressedFile::open(path);
  auto text = file ? file->read_text() : std::unexpected(file.error());
  if (!text) throw std::runtime_error(text.error().message());
  return *std::move(text);
}

}  // namespace

CsvDataset::CsvDataset(const std::string& path, const CsvDatasetOptions& options)
    : path_(path), rows_(read(options)) {}

TensorDataset<Example> CsvDataset::read(const CsvDatasetOptions& options) {
  check_options(options);
  if (const Status usable = check_is_file_of(path_, {FileKind::kGzip, FileKind::kZstd}); !usable)
    throw std::runtime_error(usable.error().message());
  const auto file = MappedFile::open(path_);
  if (!file) throw std::runtime_error(file.error().message());
  const auto bytes = file->bytes();
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string unpacked;
  const auto kind = file_kind(bytes, bytes.size());
  if (kind == FileKind::kGzip || kind == FileKind::kZstd) text = unpacked = unpacked_text(path_);
  if (const auto inner = file_kind(std::as_bytes(std::span(unpacked)), unpacked.size()))
    throw std::runtime_error(fmt::format("cannot use {}: unpacked, it is {}", path_, description_of(*inner)));
  Table table(path_, text, options);
  const std::vector<std::string> names = table.read_names();
  columns_ = options.columns;
  if (columns_.empty())
    std::ranges::copy_if(names, std::back_inserter(columns_),
                         [&](const std::string& name) { return name != options.label; });
  const Column label = table.column(names, options.label);
  std::vector<Column> columns;
  for (const std::string& name : columns_) columns.push_back(table.column(names, name));
  for (const auto& [name, words] : options.categories) table.column(names, name);
  Numbers data(options.dtype, options), target(options.label_dtype, options);
  std::int64_t count = 0;
  for (; table.next_line(); ++count) {
    for (const Column& column : columns) table.take(column, data);
    table.take(label, target);
  }
  if (count == 0) throw std::runtime_error(fmt::format("cannot use {}: it has no lines of data", path_));
  return TensorDataset(data.tensor({count, std::ssize(columns)}), target.tensor({count}));
}

}  // namespace muster
