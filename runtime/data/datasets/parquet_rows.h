// Some rows of a Parquet or Arrow file, which were decoded together. An ArrowCell gives access to a value in
// the Arrow arrays of these rows.
//
// Several threads can read these values at the same time.
#pragma once

#include <c10/core/ScalarType.h>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/datasets/arrow_arrays.h"

namespace muster {

enum class ArrowKind {
  kNull,
  kBool,
  kNumber,
  kText,       // with 32-bit offsets
  kLargeText,  // with 64-bit offsets
  kTextView,
  kFixedBytes,
  kList,
  kLargeList,
  kFixedList,
  kStruct,
  kDictionary,
  kOther,  // not supported
};

// A column, or a part of one.
struct ArrowColumn {
  ArrowKind kind = ArrowKind::kOther;
  std::string name;
  std::string type;                                  // for messages
  at::ScalarType dtype = at::ScalarType::Undefined;  // of numbers, and of a dictionary's indices
  std::int64_t size = 0;                             // kFixedBytes: in bytes; kFixedList: number of values
  std::vector<ArrowColumn> children;                 // a dictionary's only child is its values
};

ArrowColumn column_of(const ArrowSchema& schema);

// A value in an array, or the position after its last value.
struct ArrowCell {
  const ArrowColumn* column;
  const ArrowArray* array;
  std::int64_t index;

  bool is_null() const;
  template <class Value>
  const Value* values() const {  // the array's values from this one on
    return static_cast<const Value*>(array->buffers[1]) + array->offset + index;
  }
  bool flag() const;
  // Use first() and count() only for a cell that is a list. first() returns its first value. count() returns
  // the number of its values.
  ArrowCell first() const;
  std::int64_t count() const;
  ArrowCell field(std::size_t number) const;  // of a struct
  ArrowCell value() const;                    // of a dictionary
  std::string_view bytes() const;             // of text and bytes
  std::int64_t whole_number() const;          // of an integer, a boolean, or a dictionary's index
};

namespace detail {

// The data that all rows of a file share.
struct ParquetSource {
  std::string path;
  ArrowColumn columns;  // a struct
  std::optional<double> fill_na;
  bool is_mapped = false;
};

class ParquetRows {
 public:
  ParquetRows(std::shared_ptr<const ParquetSource> source, const ArrowArray& array, std::int64_t first)
      : source_(std::move(source)), array_(array), first_(first) {}
  ParquetRows(const ParquetRows&) = delete;
  ParquetRows& operator=(const ParquetRows&) = delete;
  ~ParquetRows() {
    if (array_.release != nullptr) array_.release(&array_);
  }

  const ParquetSource& source() const { return *source_; }
  const ArrowArray& array() const { return array_; }
  std::int64_t first() const { return first_; }  // the number of the first row in the file
  std::int64_t count() const { return array_.length; }

 private:
  std::shared_ptr<const ParquetSource> source_;
  ArrowArray array_;
  std::int64_t first_;
};

}  // namespace detail

}  // namespace muster
