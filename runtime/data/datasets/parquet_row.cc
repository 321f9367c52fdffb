#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/ranges.h>
#include <muster/data/parquet_dataset.h>
#include <stdexcept>
#include <torch/torch.h>
#include <utility>

#include "common/base/text.h"
#include "runtime/data/datasets/parquet_rows.h"
#include "runtime/rank/uncaught.h"

namespace muster {

namespace {

std::string name_of_row(const ParquetRow& row) {
  return fmt::format("row {} of {}", row.index(), row.file());
}

// The value of a column in one row. The other members are for error messages about this value.
struct ColumnOfRow {
  const ParquetRow& row;
  std::string_view name;
  const detail::ParquetSource& source;
  ArrowCell cell;
  bool in_list = false;  // true: an error about a null concerns a value in the column's list

  [[noreturn]] void refuse(const std::string& what) const {
    throw std::runtime_error(
        fmt::format("{}: column \"{}\" {}", name_of_row(row), one_line(std::string(name)), what));
  }
  [[noreturn]] void refuse_type(std::string_view wanted) const {
    const bool known = cell.column->kind != ArrowKind::kOther;
    refuse(fmt::format("is of the type {}, {}", cell.column->type,
                       known ? fmt::format("and not {}", wanted)
                             : "which cannot be read: write it as a number, a text or a list of these"));
  }
  std::string null_text() const {
    return in_list ? "has a null in its list" : "is null: ask is_null() first";
  }
  [[noreturn]] void refuse_null() const { refuse(null_text()); }
  // Returns the number to use in the place of a null.
  double fill() const {
    if (!source.fill_na)
      refuse(fmt::format("{}{} set the option fill_na to give such numbers a value", null_text(),
                         in_list ? ":" : ", or"));
    return *source.fill_na;
  }
  std::int64_t whole_fill() const {
    const double value = fill();
    constexpr double kLimit = 0x1p63;
    if (std::trunc(value) != value || value < -kLimit || value >= kLimit)
      refuse(fmt::format("{} null, and fill_na = {} is not of type {}", in_list ? "has a" : "is", value,
                         cell.column->type));
    return static_cast<std::int64_t>(value);
  }
};

std::string names_of(const ArrowColumn& parent) {
  std::vector<std::string_view> names;
  for (const ArrowColumn& each : parent.children) names.push_back(each.name);
  return one_line(fmt::format("{}", fmt::join(names, ", ")));
}

std::optional<std::size_t> child_named(const ArrowColumn& parent, std::string_view name) {
  for (std::size_t i = 0; i < parent.children.size(); ++i)
    if (parent.children[i].name == name) return i;
  return std::nullopt;
}

// Finds the column with this name. For a field of a struct, the name is the struct's name, a dot, and the
// field's name.
ColumnOfRow find_column(const ParquetRow& row, const detail::ParquetRows& rows, std::int64_t place,
                        std::string_view name) {
  const detail::ParquetSource& source = rows.source();
  ColumnOfRow found{.row = row,
                    .name = name,
                    .source = source,
                    .cell = {.column = &source.columns, .array = &rows.array(), .index = place}};
  for (std::string_view rest = name;;) {
    if (const auto child = child_named(*found.cell.column, rest)) {
      const bool gone = found.cell.is_null();
      found.cell = found.cell.field(*child);
      if (gone) found.refuse_null();
      return found;
    }
    const std::size_t dot = rest.find('.');
    const auto outer =
        dot == std::string_view::npos ? std::nullopt : child_named(*found.cell.column, rest.substr(0, dot));
    if (!outer || found.cell.column->children[*outer].kind != ArrowKind::kStruct)
      throw std::runtime_error(fmt::format("{} has no column \"{}\", but {}", name_of_row(row),
                                           one_line(std::string(name)), names_of(source.columns)));
    if (found.cell.is_null()) found.refuse_null();
    found.cell = found.cell.field(*outer);
    rest.remove_prefix(dot + 1);
  }
}

bool is_text(const ArrowColumn& column) {
  return column.kind == ArrowKind::kText || column.kind == ArrowKind::kLargeText ||
         column.kind == ArrowKind::kTextView || column.kind == ArrowKind::kFixedBytes;
}

bool is_list(const ArrowColumn& column) {
  return column.kind == ArrowKind::kList || column.kind == ArrowKind::kLargeList ||
         column.kind == ArrowKind::kFixedList;
}

// If the column has a dictionary, returns the cell's value in the dictionary. Otherwise returns the cell.
ArrowCell in_dictionary(const ArrowCell& cell) {
  return cell.column->kind == ArrowKind::kDictionary ? cell.value() : cell;
}

std::string_view text_of(const ColumnOfRow& column, const ArrowCell& cell) {
  const bool fits = is_text(*cell.column) ||
                    (cell.column->kind == ArrowKind::kDictionary && is_text(cell.column->children[0]));
  if (!fits && cell.column->kind != ArrowKind::kNull) column.refuse_type("a text");
  if (cell.is_null()) column.refuse_null();
  return in_dictionary(cell).bytes();
}

double real_value(const ArrowCell& cell) {
  switch (cell.column->dtype) {
    case at::ScalarType::Half: return static_cast<double>(*cell.values<at::Half>());
    case at::ScalarType::Float: return *cell.values<float>();
    case at::ScalarType::Double: return *cell.values<double>();
    case at::ScalarType::UInt64: return static_cast<double>(*cell.values<std::uint64_t>());
    default: return static_cast<double>(cell.whole_number());
  }
}

bool is_whole_number(const ArrowColumn& column) {
  return column.kind == ArrowKind::kBool ||
         (column.kind == ArrowKind::kNumber && at::isIntegralType(column.dtype, false));
}

// The numbers in a row's value, in the form of a tensor: `sizes` is the shape of the tensor, `first` is the
// first number, and `count` is the number of numbers.
struct ListedNumbers {
  std::vector<std::int64_t> sizes;
  ArrowCell first;
  std::int64_t count;

  bool may_be_null() const { return first.array->null_count != 0 && first.array->buffers[0] != nullptr; }
};

ColumnOfRow with_null(ColumnOfRow column, bool in_list) {
  column.in_list = in_list;
  return column;
}

ListedNumbers numbers_of(const ColumnOfRow& column) {
  ListedNumbers numbers{.sizes = {}, .first = column.cell, .count = 1};
  while (is_list(*numbers.first.column)) {
    ArrowCell each = numbers.first;
    // If there are no lists, the array may also have no offsets. each.first() and each.count() read the
    // offsets, unless the lists have a fixed size. So without lists, this code does not call them.
    const bool has_offsets = numbers.count > 0 || each.column->kind == ArrowKind::kFixedList;
    const ArrowCell inner =
        has_offsets
            ? each.first()
            : ArrowCell{.column = each.column->children.data(), .array = each.array->children[0], .index = 0};
    const std::int64_t length = has_offsets ? each.count() : 0;
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < numbers.count; ++i, ++each.index) {
      if (each.is_null()) with_null(column, !numbers.sizes.empty()).refuse_null();
      if (each.count() != length)
        column.refuse(fmt::format("has lists of {} and of {} values in one list, which cannot be a tensor",
                                  length, each.count()));
      total += length;
    }
    numbers.sizes.push_back(length);
    numbers.first = inner;
    numbers.count = total;
  }
  return numbers;
}

// Returns true if a column of this type can hold `value`. A boolean column can hold 0 and 1.
bool column_holds(at::ScalarType dtype, std::int64_t value) {
  switch (dtype) {
    case at::ScalarType::Bool: return value == 0 || value == 1;
    case at::ScalarType::Char: return std::in_range<std::int8_t>(value);
    case at::ScalarType::Byte: return std::in_range<std::uint8_t>(value);
    case at::ScalarType::Short: return std::in_range<std::int16_t>(value);
    case at::ScalarType::UInt16: return std::in_range<std::uint16_t>(value);
    case at::ScalarType::Int: return std::in_range<std::int32_t>(value);
    case at::ScalarType::UInt32: return std::in_range<std::uint32_t>(value);
    case at::ScalarType::UInt64: return value >= 0;
    default: return true;
  }
}

// Replaces null values by fill_na.
void fill_nulls(const ColumnOfRow& of_row, const ListedNumbers& numbers, const at::Tensor& tensor) {
  if (!numbers.may_be_null()) return;
  const ColumnOfRow column = with_null(of_row, !numbers.sizes.empty());
  const ArrowCell& first = numbers.first;
  at::Tensor flat;
  ArrowCell each = first;
  for (std::int64_t i = 0; i < numbers.count; ++i, ++each.index) {
    if (!each.is_null()) continue;
    if (!flat.defined()) flat = tensor.view({-1});
    if (!is_whole_number(*first.column)) {
      flat[i].fill_(column.fill());
      continue;
    }
    const std::int64_t value = column.whole_fill();
    if (!column_holds(first.column->dtype, value))
      column.refuse(fmt::format("is null, and fill_na = {} is not of type {}", value, first.column->type));
    flat[i].fill_(value);
  }
}

at::Tensor tensor_of(const ColumnOfRow& column, const ListedNumbers& numbers,
                     const std::shared_ptr<const detail::ParquetRows>& rows) {
  const ArrowColumn& leaf = *numbers.first.column;
  if (leaf.kind == ArrowKind::kBool) {
    at::Tensor tensor = at::empty(numbers.sizes, at::kBool);
    ArrowCell each = numbers.first;
    for (bool& value : std::span(tensor.mutable_data_ptr<bool>(), static_cast<std::size_t>(numbers.count))) {
      value = each.flag();
      ++each.index;
    }
    return tensor;
  }
  const std::size_t width = at::elementSize(leaf.dtype);
  const char* const from =
      static_cast<const char*>(numbers.first.array->buffers[1]) +
      (numbers.first.array->offset + numbers.first.index) * static_cast<std::int64_t>(width);
  constexpr std::int64_t kWorthSharing = 4096;  // bytes
  const auto bytes = numbers.count * static_cast<std::int64_t>(width);
  const bool shares = bytes >= kWorthSharing && !column.source.is_mapped && !numbers.may_be_null() &&
                      reinterpret_cast<std::uintptr_t>(from) % width == 0;
  if (shares)
    return at::from_blob(
        const_cast<char*>(from), numbers.sizes, [rows](void*) {}, at::TensorOptions(leaf.dtype));
  at::Tensor tensor = at::empty(numbers.sizes, at::TensorOptions(leaf.dtype));
  if (numbers.count > 0) std::memcpy(tensor.mutable_data_ptr(), from, static_cast<std::size_t>(bytes));
  return tensor;
}

}  // namespace

const std::string& ParquetRow::file() const {
  return rows_->source().path;
}

std::int64_t ParquetRow::index() const {
  return rows_->first() + place_;
}

bool ParquetRow::is_null(std::string_view column) const {
  return find_column(*this, *rows_, place_, column).cell.is_null();
}

std::int64_t ParquetRow::number(std::string_view column) const {
  const ColumnOfRow found = find_column(*this, *rows_, place_, column);
  const ArrowCell& cell = found.cell;
  if (cell.column->kind == ArrowKind::kNull) return found.whole_fill();
  if (!is_whole_number(*cell.column)) found.refuse_type("a whole number");
  if (cell.is_null()) return found.whole_fill();
  if (cell.column->dtype == at::ScalarType::UInt64 && *cell.values<std::uint64_t>() >> 63 != 0)
    found.refuse(fmt::format("is {}, which is above the largest int64", *cell.values<std::uint64_t>()));
  return cell.whole_number();
}

double ParquetRow::real(std::string_view column) const {
  const ColumnOfRow found = find_column(*this, *rows_, place_, column);
  const ArrowCell& cell = found.cell;
  if (cell.column->kind != ArrowKind::kNumber && cell.column->kind != ArrowKind::kBool &&
      cell.column->kind != ArrowKind::kNull)
    found.refuse_type("a number");
  return cell.is_null() ? found.fill() : real_value(cell);
}

std::string_view ParquetRow::text(std::string_view column) const {
  const ColumnOfRow found = find_column(*this, *rows_, place_, column);
  return text_of(found, found.cell);
}

std::span<const std::uint8_t> ParquetRow::bytes(std::string_view column) const {
  ColumnOfRow found = find_column(*this, *rows_, place_, column);
  const ArrowColumn& outer = *found.cell.column;
  const auto child = outer.kind == ArrowKind::kStruct ? child_named(outer, "bytes") : std::nullopt;
  if (child) {
    if (found.cell.is_null()) found.refuse_null();
    const ArrowCell parent = found.cell;
    found.cell = parent.field(*child);
    const auto path = child_named(outer, "path");
    if (found.cell.is_null() && path && is_text(outer.children[*path]) && !parent.field(*path).is_null())
      found.refuse(
          fmt::format("has no bytes but the path {}: it was not embedded into the file "
                      "(datasets: embed_table_storage, or push_to_hub with embed_external_files)",
                      one_line(std::string(parent.field(*path).bytes()))));
  }
  const std::string_view text = text_of(found, found.cell);
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

at::Tensor ParquetRow::tensor(std::string_view column) const {
  const ColumnOfRow found = find_column(*this, *rows_, place_, column);
  if (is_list(*found.cell.column) && found.cell.is_null()) found.refuse_null();
  const ListedNumbers numbers = numbers_of(found);
  const ArrowKind kind = numbers.first.column->kind;
  if (kind != ArrowKind::kNumber && kind != ArrowKind::kBool)
    found.refuse_type("a number or a list of numbers");
  at::Tensor tensor = tensor_of(found, numbers, rows_);
  fill_nulls(found, numbers, tensor);
  return tensor;
}

std::vector<std::string> ParquetRow::texts(std::string_view column) const {
  const ColumnOfRow found = find_column(*this, *rows_, place_, column);
  if (!is_list(*found.cell.column)) found.refuse_type("a list of texts");
  if (found.cell.is_null()) found.refuse_null();
  std::vector<std::string> texts;
  ArrowCell each = found.cell.first();
  for (std::int64_t i = 0; i < found.cell.count(); ++i, ++each.index)
    texts.emplace_back(text_of(with_null(found, true), each));
  return texts;
}

void detail::rethrow_undecoded(const ParquetRow& row) {
  const std::string why = current_exception_text(), name = name_of_row(row);
  std::throw_with_nested(std::runtime_error(why.starts_with(name) ? why : fmt::format("{}: {}", name, why)));
}

}  // namespace muster
