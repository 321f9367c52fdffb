// Samples from the rows of Parquet and Arrow files, through pyarrow's libraries.
//
//   const muster::ParquetDataset rows({"train-*.parquet"}, [](const muster::ParquetRow& row) {
//     return muster::Example{.data = row.tensor("input_ids"),
//                            .target = at::scalar_tensor(row.number("label"))};
//   });
//   muster::DataLoader loader(rows, {.batch_size = 64, .num_workers = 4}, job);
//
// A ParquetDataset is an IterableDataset. Each shard reads a part of its own, one row group after the other;
// the lengths of the parts differ by at most one row. A run that resumes seeks to the row group that it
// needs, and reads no earlier row again, even with shuffling. `decode` makes the sample; several threads call
// it at once.
//
// Files may be Parquet, Arrow IPC files (Feather) or Arrow streams, as Hugging Face's datasets stores them;
// the first bytes tell which. Arrow files are memory-mapped and must not be truncated while in use. Parquet's
// page checksums are verified where the writer stored them; without checksums, and in Arrow files, a damaged
// value goes unnoticed.
//
// The class needs pyarrow, in the major version that Muster was built with. Muster looks for it in
// MUSTER_PYARROW_DIR or, if that is not set, next to torch and in the environment that VIRTUAL_ENV names.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <muster/data/iterable_dataset.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

struct ParquetDatasetOptions {
  std::vector<std::string> columns = {};  // to read; empty: all
  bool shuffle_row_groups = false;        // another order of the row groups in every epoch
  // The number of rows in a buffer. Each row that the dataset returns is drawn at random from the buffer. 0:
  // rows are returned in the order of the files.
  std::int64_t shuffle = 0;
  // A null number is read as this value. If fill_na is empty, reading a null number is an error.
  std::optional<double> fill_na = {};
};

namespace detail {
class ParquetRows;
class ParquetFiles;
}  // namespace detail

// A row of a file. Columns have the names that they have in the file. For example, "image.path" is the field
// `path` of the struct `image`.
//
// If a column is missing, null or of another type, the functions throw an error that names file, row and
// column.
class ParquetRow {
 public:
  ParquetRow(std::shared_ptr<const detail::ParquetRows> rows, std::int64_t place)
      : rows_(std::move(rows)), place_(place) {}

  const std::string& file() const;
  std::int64_t index() const;  // in the file, from 0
  bool is_null(std::string_view column) const;
  // Reads a whole number or a boolean. It also reads a date, time or duration, as a number in the column's
  // unit.
  std::int64_t number(std::string_view column) const;
  double real(std::string_view column) const;  // also of whole numbers
  // Reads a text, or the text of an entry of a dictionary column (a category). The result is valid until the
  // row is destroyed.
  std::string_view text(std::string_view column) const;
  // Reads binary data or text. If the column is a struct {bytes, path}, reads its field `bytes`: Hugging
  // Face's datasets library stores pictures and sound in this way.
  std::span<const std::uint8_t> bytes(std::string_view column) const;
  // Returns a tensor of the column's type. For a number, its shape is []. For a list of numbers, its shape is
  // [n]. For a list of lists of equal lengths, its shape is [n, m]. A tensor of 4 KiB or more can share the
  // row's memory. Later rows do not overwrite that memory.
  at::Tensor tensor(std::string_view column) const;
  std::vector<std::string> texts(std::string_view column) const;  // from a list of texts

 private:
  std::shared_ptr<const detail::ParquetRows> rows_;
  std::int64_t place_;
};

namespace detail {

// Throws std::invalid_argument, which names an option that cannot be used, or std::runtime_error, which names
// a file and what is wrong with it.
std::shared_ptr<const ParquetFiles> open_parquet_files(const std::vector<std::string>& patterns,
                                                       const ParquetDatasetOptions& options);
const std::string& name_of(const ParquetFiles& files);
std::int64_t row_count(const ParquetFiles& files);
// Call it only in an exception handler. Throws an error that names the row and has the handled exception
// nested in it.
[[noreturn]] void rethrow_undecoded(const ParquetRow& row);

class ParquetStream {
 public:
  ParquetStream(std::shared_ptr<const ParquetFiles> files, const Shard& shard);
  ParquetStream(const ParquetStream&) = delete;
  ParquetStream& operator=(const ParquetStream&) = delete;
  ~ParquetStream();

  // Returns the next row, or nothing at the end. If a row cannot be read, throws an error; the next call then
  // returns the row after it.
  std::optional<ParquetRow> next();
  void skip(std::int64_t count);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

template <class Decode>
class ParquetDataset
    : public IterableDataset<std::remove_cvref_t<std::invoke_result_t<const Decode&, const ParquetRow&>>> {
  using Base = IterableDataset<std::remove_cvref_t<std::invoke_result_t<const Decode&, const ParquetRow&>>>;

 public:
  using typename Base::Reader;
  using typename Base::Sample;

  // `files` may contain a shell's *, ? and []. Opens all files, to count their rows. Throws
  // std::invalid_argument, which names an option that cannot be used. Throws std::runtime_error if pyarrow or
  // a file is missing, if a file has another format, or if a file lacks a column.
  ParquetDataset(const std::vector<std::string>& files, Decode decode, ParquetDatasetOptions options = {})
      : files_(detail::open_parquet_files(files, options)), decode_(std::move(decode)) {}
  ParquetDataset(std::initializer_list<std::string> files, Decode decode, ParquetDatasetOptions options = {})
      : ParquetDataset(std::vector<std::string>(files), std::move(decode), std::move(options)) {}

  std::unique_ptr<Reader> open(const Shard& shard) const override {
    return std::make_unique<Reading>(*this, shard);
  }
  std::string name() const override { return detail::name_of(*files_); }
  std::int64_t row_count() const { return detail::row_count(*files_); }  // in all files

 private:
  class Reading : public Reader {
   public:
    Reading(const ParquetDataset& dataset, const Shard& shard)
        : decode_(dataset.decode_), stream_(dataset.files_, shard) {}
    std::optional<Sample> next() override {
      const std::optional<ParquetRow> row = stream_.next();
      if (!row) return std::nullopt;
      try {
        return decode_(*row);
      } catch (const std::exception&) {
        detail::rethrow_undecoded(*row);
      }
    }
    bool skip(std::int64_t count) override {
      stream_.skip(count);
      return true;
    }

   private:
    const Decode& decode_;
    detail::ParquetStream stream_;
  };

  std::shared_ptr<const detail::ParquetFiles> files_;
  Decode decode_;
};

}  // namespace muster
