// A file of columns, Parquet or Arrow's, as libmuster_parquet.so reads it with pyarrow's libraries.
//
// The library is loaded at the first such file: nothing else of Muster needs Arrow. Several threads may call
// everything here at once, but for one ColumnChunks. std::runtime_error says what is wrong with a file,
// without its name, or that the library or its pyarrow is missing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/datasets/arrow_arrays.h"

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
  // What the user should know about the file; empty if there is nothing.
  virtual const std::string& warning() const = 0;
};

// The file at `path`, and of its columns those with these names, or all if there are none.
std::unique_ptr<ColumnFile> open_column_file(const std::string& path,
                                             const std::vector<std::string>& columns);

// The function of libmuster_parquet.so that open_column_file() calls; its caller owns the result. The number
// in its name changes with the classes above, so that no program takes a library of another Muster.
using OpenColumnFile = ColumnFile*(const std::string& path, const std::vector<std::string>& columns);
inline constexpr const char* kOpenColumnFile = "muster_open_column_file_1";

}  // namespace muster
