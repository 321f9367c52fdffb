// A file of columns, in the format Parquet or Arrow. libmuster_parquet.so reads it with the libraries of
// pyarrow.
//
// The library is loaded when the first such file is opened, because nothing else in Muster needs Arrow. Any
// thread can use a ColumnFile, but only one thread at a time is allowed to use a ColumnChunks. Errors are
// std::runtime_error. The text says what is wrong with the file, without the file's name, or that the library
// or pyarrow is missing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/datasets/arrow_arrays.h"

namespace muster {

// Reads the rows of one group of a file, from the first row to the last.
class ColumnChunks {
 public:
  virtual ~ColumnChunks() = default;
  // Puts the next rows, at least one, into `rows`: a struct that has a child for each column. Returns false
  // at the end. The caller releases the array.
  virtual bool next(ArrowArray* rows) = 0;
};

class ColumnFile {
 public:
  virtual ~ColumnFile() = default;
  // Writes the schema of the rows to `schema`: a struct that has a child for each column that is read. The
  // caller releases it.
  virtual void export_schema(ArrowSchema* schema) const = 0;
  // Returns the number of rows in each row group (Parquet) or record batch (Arrow).
  virtual const std::vector<std::int64_t>& group_rows() const = 0;
  virtual std::unique_ptr<ColumnChunks> read(std::size_t group) const = 0;
  // Returns true if the arrays are in the mapped file. Then nobody is allowed to write to them.
  virtual bool is_mapped() const = 0;
  // Returns a warning about the file for the user. Returns "" if there is none.
  virtual const std::string& warning() const = 0;
};

// Opens the file at `path`. Reads the columns with these names, or all columns if `columns` is empty.
std::unique_ptr<ColumnFile> open_column_file(const std::string& path,
                                             const std::vector<std::string>& columns);

// The type and name of the function in libmuster_parquet.so that open_column_file() calls. The caller owns
// the ColumnFile that it returns. The name ends with a number. This number changes whenever the classes above
// change, so that a program cannot load the library of another version of Muster.
using OpenColumnFile = ColumnFile*(const std::string& path, const std::vector<std::string>& columns);
inline constexpr const char* kOpenColumnFile = "muster_open_column_file_1";

}  // namespace muster
