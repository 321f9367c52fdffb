// Samples out of the rows of Parquet and Arrow files, by pyarrow's libraries.
//
//   const muster::ParquetDataset rows({"train-*.parquet"}, [](const muster::ParquetRow& row) {
//     return muster::Example{.data = row.tensor("input_ids"), .target =
//     at::scalar_tensor(row.number("label"))};
//   });
//   muster::DataLoader loader(rows, {.batch_size = 64, .num_workers = 4}, job);
//
// A stream (muster/data/iterable_dataset.h) whose shards have the same number of rows, give or take one: each
// reads a part of its own, row group after row group. A run that goes on reads no row again, whatever is
// shuffled, and goes to the row group that it needs. `decode` makes the sample, and is called by several
// threads at once.
//
// Files are Parquet, Arrow's IPC files (Feather) or Arrow's streams, as Hugging Face's datasets keeps them;
// the first bytes say which. Arrow's are mapped, and must not be cut while they are used. Parquet's checksums
// of pages are compared where they were written; without them, and in Arrow's files, a damaged value cannot
// be seen.
//
// It takes pyarrow, of the major version that Muster was built with: where MUSTER_PYARROW_DIR says, or else
// beside torch or in the environment that VIRTUAL_ENV names.
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
  std::vector<std::string> columns = {};  // that are read; none: all
  bool shuffle_row_groups = false;        // they come in another order in every epoch
  // The next row is drawn from so many that are held. 0: in order.
  std::int64_t shuffle = 0;
  // What a number that is null counts as; without it, to ask for one is an error.
  std::optional<double> fill_na = {};
};

namespace detail {
class ParquetRows;
class ParquetFiles;
}  // namespace detail

// One row. A column is named as in the file, and a field of a struct behind a dot: "image.path".
//
// What they throw, if there is no such column, it is null or is of another type, names file, row and column.
class ParquetRow {
 public:
  ParquetRow(std::shared_ptr<const detail::ParquetRows> rows, std::int64_t place)
      : rows_(std::move(rows)), place_(place) {}

  const std::string& file() const;
  std::int64_t index() const;  // in the file, from 0
  bool is_null(std::string_view column) const;
  // Whole numbers, booleans, and dates, times and durations in the unit of the column.
  std::int64_t number(std::string_view column) const;
  double real(std::string_view column) const;  // also of whole numbers
  // Text, also of a dictionary (a category). Valid as long as the row.
  std::string_view text(std::string_view column) const;
  // Binary, text, or the struct {bytes, path} that datasets makes of pictures and sound: its bytes.
  std::span<const std::uint8_t> bytes(std::string_view column) const;
  // Of the column's type: [] of a number, [n] of a list of numbers, [n, m] of a list of lists of equal
  // lengths. From 4 KiB on it may be the row's own memory, which the file's next rows do not change.
  at::Tensor tensor(std::string_view column) const;
  std::vector<std::string> texts(std::string_view column) const;  // of a list of texts

 private:
  std::shared_ptr<const detail::ParquetRows> rows_;
  std::int64_t place_;
};

namespace detail {

// std::invalid_argument names an option that cannot be used; std::runtime_error a file, and what is wrong
// with it.
std::shared_ptr<const ParquetFiles> open_parquet_files(const std::vector<std::string>& patterns,
                                                       const ParquetDatasetOptions& options);
const std::string& name_of(const ParquetFiles& files);
std::int64_t row_count(const ParquetFiles& files);
// Called while an exception is handled: throws what names the row, with the exception nested in it.
[[noreturn]] void rethrow_undecoded(const ParquetRow& row);

class ParquetStream {
 public:
  ParquetStream(std::shared_ptr<const ParquetFiles> files, const Shard& shard);
  ParquetStream(const ParquetStream&) = delete;
  ParquetStream& operator=(const ParquetStream&) = delete;
  ~ParquetStream();

  // Each row that cannot be read is thrown once.
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

  // `files` may have a shell's *, ? and []. Opens them all, to know their rows. std::invalid_argument names
  // an option that cannot be used; std::runtime_error the file, and what is wrong with it: missing, of
  // another kind, without one of the columns; and that pyarrow is missing.
  ParquetDataset(const std::vector<std::string>& files, Decode decode, ParquetDatasetOptions options = {})
      : files_(detail::open_parquet_files(files, options)), decode_(std::move(decode)) {}
  ParquetDataset(std::initializer_list<std::string> files, Decode decode, ParquetDatasetOptions options = {})
      : ParquetDataset(std::vector<std::string>(files), std::move(decode), std::move(options)) {}

  std::unique_ptr<Reader> open(const Shard& shard) const override {
    return std::make_unique<Reading>(*this, shard);
  }
  std::string name() const override { return detail::name_of(*files_); }
  std::int64_t row_count() const { return detail::row_count(*files_); }  // of all files

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
