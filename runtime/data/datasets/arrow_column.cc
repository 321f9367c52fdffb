#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <utility>

#include "common/base/text.h"
#include "runtime/data/datasets/number_at.h"
#include "runtime/data/datasets/parquet_rows.h"

namespace muster {

namespace {

struct Format {
  std::string_view text;
  ArrowKind kind;
  at::ScalarType dtype;
  std::string_view type;
};
constexpr Format kFormats[] = {
    {"n", ArrowKind::kNull, at::ScalarType::Undefined, "null"},
    {"b", ArrowKind::kBool, at::ScalarType::Bool, "bool"},
    {"c", ArrowKind::kNumber, at::ScalarType::Char, "int8"},
    {"C", ArrowKind::kNumber, at::ScalarType::Byte, "uint8"},
    {"s", ArrowKind::kNumber, at::ScalarType::Short, "int16"},
    {"S", ArrowKind::kNumber, at::ScalarType::UInt16, "uint16"},
    {"i", ArrowKind::kNumber, at::ScalarType::Int, "int32"},
    {"I", ArrowKind::kNumber, at::ScalarType::UInt32, "uint32"},
    {"l", ArrowKind::kNumber, at::ScalarType::Long, "int64"},
    {"L", ArrowKind::kNumber, at::ScalarType::UInt64, "uint64"},
    {"e", ArrowKind::kNumber, at::ScalarType::Half, "float16"},
    {"f", ArrowKind::kNumber, at::ScalarType::Float, "float"},
    {"g", ArrowKind::kNumber, at::ScalarType::Double, "double"},
    {"u", ArrowKind::kText, at::ScalarType::Undefined, "string"},
    {"z", ArrowKind::kText, at::ScalarType::Undefined, "binary"},
    {"U", ArrowKind::kLargeText, at::ScalarType::Undefined, "large_string"},
    {"Z", ArrowKind::kLargeText, at::ScalarType::Undefined, "large_binary"},
    {"vu", ArrowKind::kTextView, at::ScalarType::Undefined, "string_view"},
    {"vz", ArrowKind::kTextView, at::ScalarType::Undefined, "binary_view"},
    {"tdD", ArrowKind::kNumber, at::ScalarType::Int, "date32"},
    {"tdm", ArrowKind::kNumber, at::ScalarType::Long, "date64"},
    {"tts", ArrowKind::kNumber, at::ScalarType::Int, "time32"},
    {"ttm", ArrowKind::kNumber, at::ScalarType::Int, "time32"},
    {"ttu", ArrowKind::kNumber, at::ScalarType::Long, "time64"},
    {"ttn", ArrowKind::kNumber, at::ScalarType::Long, "time64"},
    {"+l", ArrowKind::kList, at::ScalarType::Undefined, "list"},
    {"+L", ArrowKind::kLargeList, at::ScalarType::Undefined, "large_list"},
    {"+s", ArrowKind::kStruct, at::ScalarType::Undefined, "struct"},
};
// Prefixes of formats with parameters.
constexpr Format kBeginnings[] = {
    {"ts", ArrowKind::kNumber, at::ScalarType::Long, "timestamp"},
    {"tD", ArrowKind::kNumber, at::ScalarType::Long, "duration"},
    {"w:", ArrowKind::kFixedBytes, at::ScalarType::Undefined, "fixed_size_binary"},
    {"+w:", ArrowKind::kFixedList, at::ScalarType::Undefined, "fixed_size_list"},
    {"d:", ArrowKind::kOther, at::ScalarType::Undefined, "decimal"},
    {"ti", ArrowKind::kOther, at::ScalarType::Undefined, "interval"},
    {"+m", ArrowKind::kOther, at::ScalarType::Undefined, "map"},
    {"+u", ArrowKind::kOther, at::ScalarType::Undefined, "union"},
    {"+r", ArrowKind::kOther, at::ScalarType::Undefined, "run_end_encoded"},
    {"+v", ArrowKind::kOther, at::ScalarType::Undefined, "list_view"},
};

Format format_of(std::string_view text) {
  for (const Format& each : kFormats)
    if (text == each.text) return each;
  for (const Format& each : kBeginnings)
    if (text.starts_with(each.text)) return each;
  return {text, ArrowKind::kOther, at::ScalarType::Undefined, text};
}

bool bit_at(const void* bits, std::int64_t index) {
  return (static_cast<const std::uint8_t*>(bits)[index / 8] >> (index % 8) & 1) != 0;
}

// Returns a text of an Arrow array of views. A view has 16 bytes. The first 4 bytes are the length of the
// text. If the text has at most 12 bytes, it follows. Otherwise three numbers of 4 bytes follow: the
// beginning of the text, the number of a buffer, and where the text begins in that buffer.
std::string_view viewed(const ArrowArray& array, std::int64_t index) {
  constexpr std::int64_t kViewBytes = 16, kBuffersBefore = 2;
  constexpr std::size_t kInline = 12;
  const std::string_view view(static_cast<const char*>(array.buffers[1]) + index * kViewBytes, kViewBytes);
  const auto size = static_cast<std::size_t>(number_at<std::uint32_t>(view, 0));
  if (size <= kInline) return view.substr(4, size);
  const auto buffer = number_at<std::uint32_t>(view, 8), place = number_at<std::uint32_t>(view, 12);
  return {static_cast<const char*>(array.buffers[kBuffersBefore + buffer]) + place, size};
}

template <class Offset>
std::string_view between_offsets(const ArrowCell& cell) {
  const Offset* const offsets = cell.values<Offset>();
  return {static_cast<const char*>(cell.array->buffers[2]) + offsets[0],
          static_cast<std::size_t>(offsets[1] - offsets[0])};
}

}  // namespace

ArrowColumn column_of(const ArrowSchema& schema) {
  const Format format = format_of(schema.format);
  ArrowColumn column{.kind = format.kind,
                     .name = schema.name == nullptr ? "" : schema.name,
                     .type = std::string(format.type),
                     .dtype = format.dtype,
                     .size = 0,
                     .children = {}};
  if (schema.dictionary != nullptr) {
    column.kind = ArrowKind::kDictionary;
    column.children.push_back(column_of(*schema.dictionary));
    column.type = fmt::format("dictionary of {}", column.children[0].type);
    return column;
  }
  if (format.kind == ArrowKind::kFixedBytes || format.kind == ArrowKind::kFixedList)
    column.size =
        parse_number<std::int64_t>(std::string_view(schema.format).substr(format.text.size())).value_or(0);
  for (std::int64_t i = 0; i < schema.n_children; ++i)
    column.children.push_back(column_of(*schema.children[i]));
  const bool is_list = format.kind == ArrowKind::kList || format.kind == ArrowKind::kLargeList ||
                       format.kind == ArrowKind::kFixedList;
  if (is_list) column.type += fmt::format(" of {}", column.children.at(0).type);
  return column;
}

bool ArrowCell::is_null() const {
  if (column->kind == ArrowKind::kNull) return true;
  if (array->n_buffers > 0 && array->buffers[0] != nullptr &&
      !bit_at(array->buffers[0], array->offset + index))
    return column->type != "union";  // a union's first buffer holds types, not bits for nulls
  return column->kind == ArrowKind::kDictionary && value().is_null();
}

bool ArrowCell::flag() const {
  return bit_at(array->buffers[1], array->offset + index);
}

ArrowCell ArrowCell::first() const {
  std::int64_t place = (array->offset + index) * column->size;
  if (column->kind == ArrowKind::kList) place = *values<std::int32_t>();
  if (column->kind == ArrowKind::kLargeList) place = *values<std::int64_t>();
  return {.column = column->children.data(), .array = array->children[0], .index = place};
}

std::int64_t ArrowCell::count() const {
  if (column->kind == ArrowKind::kList) return values<std::int32_t>()[1] - values<std::int32_t>()[0];
  if (column->kind == ArrowKind::kLargeList) return values<std::int64_t>()[1] - values<std::int64_t>()[0];
  return column->size;
}

ArrowCell ArrowCell::field(std::size_t number) const {
  return {
      .column = &column->children[number], .array = array->children[number], .index = array->offset + index};
}

ArrowCell ArrowCell::value() const {
  return {.column = column->children.data(), .array = array->dictionary, .index = whole_number()};
}

std::string_view ArrowCell::bytes() const {
  switch (column->kind) {
    case ArrowKind::kText: return between_offsets<std::int32_t>(*this);
    case ArrowKind::kLargeText: return between_offsets<std::int64_t>(*this);
    case ArrowKind::kTextView: return viewed(*array, array->offset + index);
    default:
      return {static_cast<const char*>(array->buffers[1]) + (array->offset + index) * column->size,
              static_cast<std::size_t>(column->size)};
  }
}

std::int64_t ArrowCell::whole_number() const {
  switch (column->dtype) {
    case at::ScalarType::Bool: return flag() ? 1 : 0;
    case at::ScalarType::Char: return *values<std::int8_t>();
    case at::ScalarType::Byte: return *values<std::uint8_t>();
    case at::ScalarType::Short: return *values<std::int16_t>();
    case at::ScalarType::UInt16: return *values<std::uint16_t>();
    case at::ScalarType::Int: return *values<std::int32_t>();
    case at::ScalarType::UInt32: return *values<std::uint32_t>();
    case at::ScalarType::UInt64: return static_cast<std::int64_t>(*values<std::uint64_t>());
    default: return *values<std::int64_t>();
  }
}

}  // namespace muster
