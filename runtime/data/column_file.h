// A file of columns, Parquet or Arrow's, as libmuster_parquet.so reads it with pyarrow's libraries.
//
// The library is loaded at the first such file: nothing else of Muster needs Arrow. That it, or its pyarrow,
// is not there is thrown as well. Everything here may be called by several threads at once, but for one
// ColumnChunks. What is wrong is thrown as std::runtime_error, without the file's name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/arrow_arrays.h"

namespace muster {

// The rows of one group, from front to end.
class ColumnChunks {
 public:
  virtual ~ColumnChunks() = default;
  // The next rows, at least one: a struct with a child for each column. False at the end. The receiver
  // releases the array.
  virtual bool next(ArrowArray* rows) = 0;
};

class ColumnFile {
 public:
  virtual ~ColumnFile() = default;
  // A struct with a child for each column that is read. The receiver releases it.
  virtual void export_schema(ArrowSchema* schema) const = 0;
  // Of each row group, or of each record batch.
  virtual const std::vector<std::int64_t>& group_rows() const = 0;
  virtual std::unique_ptr<ColumnChunks> read(std::size_t group) const = 0;
  // The memory of its arrays is that of the file: nothing may be written there.
  virtual bool is_mapped() const = 0;
  // What a person should know of the file, if there is anything.
  virtual const std::string& warning() const = 0;
};

// The file at `path`, and of its columns those with these names, or all if there are none.
std::unique_ptr<ColumnFile> open_column_file(const std::string& path,
                                             const std::vector<std::string>& columns);

// What libmuster_parquet.so has for it; the caller owns what it returns.
using OpenColumnFile = ColumnFile*(const std::string& path, const std::vector<std::string>& columns);
inline constexpr const char* kOpenColumnFile = "muster_open_column_file";

}  // namespace muster
