// A file of columns, Parquet or Arrow, that libmuster_parquet.so reads with pyarrow's libraries.
//
// Opening the first such file loads the library: nothing else in Muster needs Arrow. Any thread can use a
// ColumnFile, but only one thread at a time is allowed to use a ColumnChunks. Errors are std::runtime_error.
// Their text says what is wrong with the file, without its name, or that the library or pyarrow is missing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/datasets/arrow_arrays.h"

namespace muster {

// Reads the rows of one group from first to last.
class ColumnChunks {
 public:
  virtual ~ColumnChunks() = default;
  // Gives the next rows, at least one, as a struct with a child for each column. Returns false at the end.
  // The caller releases the array.
  virtual bool next(ArrowArray* rows) = 0;
};

class ColumnFile {
 public:
  virtual ~ColumnFile() = default;
  // Writes the schema of the rows: a struct with a child for each column that is read. The
  // caller releases it.
  virtual void export_schema(ArrowSchema* schema) const = 0;
  // Returns the number of rows in each row group (Parquet) or record batch (Arrow).
  virtual const std::vector<std::int64_t>& group_rows() const = 0;
  virtual std::unique_ptr<ColumnChunks> read(std::size_t group) const = 0;
  // Returns true if the arrays lie in the mapped file. Nobody is allowed to write to such arrays.
  virtual bool is_mapped() const = 0;
  // Returns a warning for the user about the file; empty if there is none.
  virtual const std::string& warning() const = 0;
};

// Opens the file at `path`. Reads the columns with these names, or all columns if `columns` is empty.
std::unique_ptr<ColumnFile> open_column_file(const std::string& path,
                                             const std::vector<std::string>& columns);

// The function of libmuster_parquet.so that open_column_file() calls. The caller owns the result. The number
// in its name changes with the classes above, so that a program cannot load the library of another Muster
// version.
using OpenColumnFile = ColumnFile*(const std::string& path, const std::vector<std::string>& columns);
inline constexpr const char* kOpenColumnFile = "muster_open_column_file_1";

}  // namespace muster
