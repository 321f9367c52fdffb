// libmuster_parquet.so reads Parquet and Arrow files with pyarrow's libraries.
#include <algorithm>
#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <arrow/ipc/api.h>
#include <cstring>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <stdexcept>

#include "runtime/data/datasets/column_file.h"

namespace muster {

namespace {

// How many bytes of rows are decoded at once. They are so few that they stay in a core's cache until they are
// used.
constexpr std::int64_t kChunkBytes = 512 << 10;
constexpr std::int64_t kMostChunkRows = 1 << 16;
constexpr std::int64_t kReadBytes = 256 << 10;        // the buffer of each column
constexpr std::int64_t kMostColumnBytes = 1LL << 40;  // the limit for what a file claims

// An error whose text Muster has written itself. with_known_errors() keeps this text. For all other errors,
// it says that the file is damaged.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check(const arrow::Status& status) {
  // Arrow returns this status if pyarrow was built without the codec or the encryption that the file needs.
  if (status.IsNotImplemented()) throw Refusal(status.message());
  if (!status.ok()) throw std::runtime_error(status.message());
}

// Turns all exceptions into std::runtime_error, because the program does not know the types
// that Parquet throws.
template <class Function>
auto with_known_errors(const Function& function) {
  try {
    return function();
  } catch (const Refusal& refusal) {
    throw std::runtime_error(refusal.what());
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("it is cut off or damaged: ") + error.what());
  }
}

template <class Value>
Value value_of(arrow::Result<Value> result) {
  check(result.status());
  return *std::move(result);
}

// Returns the indices of the columns in `names`, in the order of `names`. If `names` is empty, returns the
// indices of all columns.
std::vector<int> columns_named(const arrow::Schema& schema, const std::vector<std::string>& names) {
  std::vector<int> indices;
  for (int i = 0; names.empty() && i < schema.num_fields(); ++i) indices.push_back(i);
  for (const std::string& name : names) {
    const auto found = schema.GetAllFieldIndices(name);
    if (found.size() == 1) indices.push_back(found[0]);
    if (found.size() > 1) throw Refusal("it has several columns named " + name);
    if (!found.empty()) continue;
    std::string all;
    for (const std::string& each : schema.field_names()) all += (all.empty() ? "" : ", ") + each;
    throw Refusal("it has no column " + name + ", but " + (all.empty() ? "none" : all));
  }
  return indices;
}

std::shared_ptr<arrow::Schema> only(const arrow::Schema& schema, const std::vector<int>& columns) {
  arrow::FieldVector fields;
  for (const int column : columns) fields.push_back(schema.field(column));
  return arrow::schema(std::move(fields));
}

// Reads the rows of a group. Checks that the group has exactly as many rows as the file says.
class CountedChunks : public ColumnChunks {
 public:
  CountedChunks(std::shared_ptr<arrow::Schema> schema, std::int64_t rows)
      : schema_(std::move(schema)), left_(rows) {}

  bool next(ArrowArray* rows) final {
    return with_known_errors([&] { return export_next(rows); });
  }

 private:
  virtual std::shared_ptr<arrow::RecordBatch> next_batch() = 0;

  bool export_next(ArrowArray* rows) {
    std::shared_ptr<arrow::RecordBatch> batch;
    do {
      batch = next_batch();
    } while (batch && batch->num_rows() == 0);
    if ((batch ? batch->num_rows() : 0) > left_ || (!batch && left_ > 0))
      throw std::runtime_error("it does not have as many rows as it claims");
    if (!batch) return false;
    left_ -= batch->num_rows();
    if (!batch->schema()->Equals(*schema_)) {
      arrow::ArrayVector columns;
      for (const auto& field : schema_->fields()) columns.push_back(batch->GetColumnByName(field->name()));
      if (std::ranges::find(columns, nullptr) != columns.end())
        throw std::runtime_error("one of its columns is missing");
      batch = arrow::RecordBatch::Make(schema_, batch->num_rows(), std::move(columns));
    }
    check(batch->ValidateFull());
    check(arrow::ExportRecordBatch(*batch, rows));
    return true;
  }

  std::shared_ptr<arrow::Schema> schema_;
  std::int64_t left_;
};

// The base class of all kinds of files.
class FileOfGroups : public ColumnFile {
 public:
  void export_schema(ArrowSchema* schema) const final { check(arrow::ExportSchema(*schema_, schema)); }
  const std::vector<std::int64_t>& group_rows() const final { return group_rows_; }
  const std::string& warning() const final { return warning_; }

 protected:
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> group_rows_;
  std::string warning_;
};

// ---- Parquet

parquet::ReaderProperties properties_for_reading() {
  parquet::ReaderProperties properties;
  properties.enable_buffered_stream();  // otherwise Parquet reads a whole column of a row group at once
  properties.set_buffer_size(kReadBytes);
  properties.set_page_checksum_verification(true);  // of pages that have a checksum
  return properties;
}

std::unique_ptr<parquet::arrow::FileReader> open_reader(
    const std::string& path, const std::shared_ptr<parquet::FileMetaData>& metadata, std::int64_t rows) {
  auto file = value_of(arrow::io::ReadableFile::Open(path));
  auto reader = parquet::ParquetFileReader::Open(std::move(file), properties_for_reading(), metadata);
  parquet::ArrowReaderProperties properties;
  properties.set_batch_size(rows);
  properties.set_pre_buffer(false);
  return value_of(
      parquet::arrow::FileReader::Make(arrow::default_memory_pool(), std::move(reader), properties));
}

class ParquetChunks : public CountedChunks {
 public:
  ParquetChunks(std::unique_ptr<parquet::arrow::FileReader> file, std::shared_ptr<arrow::Schema> schema,
                int group, const std::vector<int>& leaves)
      : CountedChunks(std::move(schema), file->parquet_reader()->metadata()->RowGroup(group)->num_rows()),
        file_(std::move(file)),
        batches_(value_of(file_->GetRecordBatchReader({group}, leaves))) {}

 private:
  std::shared_ptr<arrow::RecordBatch> next_batch() override {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(batches_->ReadNext(&batch));
    return batch;
  }

  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
};

class ParquetFile : public FileOfGroups {
 public:
  ParquetFile(const std::string& path, const std::vector<std::string>& columns) : path_(path) {
    const auto reader = open_reader(path, nullptr, kMostChunkRows);
    metadata_ = reader->parquet_reader()->metadata();
    std::shared_ptr<arrow::Schema> whole;
    check(reader->GetSchema(&whole));
    const std::vector<int> wanted = columns_named(*whole, columns);
    // Arrow reads leaf columns, that is, columns without children. It needs them in the order of the file.
    for (const int column : wanted)
      add_leaves(reader->manifest().schema_fields.at(static_cast<std::size_t>(column)));
    std::ranges::sort(leaves_);
    schema_ = only(*whole, wanted);
    std::uint64_t rows = 0;  // unsigned, so that a damaged file cannot make the sum overflow
    std::int64_t bytes = 0;
    for (int group = 0; group < metadata_->num_row_groups(); ++group) {
      const auto row_group = metadata_->RowGroup(group);
      if (row_group->num_rows() < 0)
        throw std::runtime_error("a row group of it has a negative number of rows");
      rows += static_cast<std::uint64_t>(row_group->num_rows());
      for (const int leaf : leaves_)
        bytes += std::clamp<std::int64_t>(row_group->ColumnChunk(leaf)->total_uncompressed_size(), 0,
                                          kMostColumnBytes);
      group_rows_.push_back(row_group->num_rows());
    }
    if (rows != static_cast<std::uint64_t>(metadata_->num_rows()))
      throw std::runtime_error("its row groups do not add up to the number of rows that it claims");
    const std::int64_t row_bytes =
        std::max<std::int64_t>(1, bytes / std::max<std::int64_t>(1, metadata_->num_rows()));
    chunk_rows_ = std::clamp<std::int64_t>(kChunkBytes / row_bytes, 1, kMostChunkRows);
  }

  std::unique_ptr<ColumnChunks> read(std::size_t group) const override {
    return with_known_errors([&] {
      return std::make_unique<ParquetChunks>(open_reader(path_, metadata_, chunk_rows_), schema_,
                                             static_cast<int>(group), leaves_);
    });
  }
  bool is_mapped() const override { return false; }

 private:
  void add_leaves(const parquet::arrow::SchemaField& field) {
    if (field.column_index >= 0) leaves_.push_back(field.column_index);
    for (const auto& child : field.children) add_leaves(child);
  }

  std::string path_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::vector<int> leaves_;
  std::int64_t chunk_rows_ = 1;
};

// ---- Arrow's own

class BatchOnce : public CountedChunks {
 public:
  BatchOnce(std::shared_ptr<arrow::Schema> schema, std::shared_ptr<arrow::RecordBatch> batch,
            std::int64_t rows)
      : CountedChunks(std::move(schema), rows), batch_(std::move(batch)) {}

 private:
  std::shared_ptr<arrow::RecordBatch> next_batch() override { return std::exchange(batch_, nullptr); }

  std::shared_ptr<arrow::RecordBatch> batch_;
};

arrow::ipc::IpcReadOptions options_for(std::vector<int> columns) {
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  std::ranges::sort(columns);
  options.included_fields = std::move(columns);
  return options;
}

// Reads Arrow's file format, which has an index of its record batches at the end.
class ArrowFile : public FileOfGroups {
 public:
  ArrowFile(std::shared_ptr<arrow::io::MemoryMappedFile> file, const std::vector<std::string>& columns)
      : file_(std::move(file)) {
    const auto whole = open({})->schema();
    const std::vector<int> wanted = columns_named(*whole, columns);
    schema_ = only(*whole, wanted);
    fields_ = wanted;
    // Counts the rows of each record batch. To do so, it reads one column, and decompresses this column if
    // necessary.
    const auto reader = open(whole->num_fields() == 0 ? std::vector<int>{} : std::vector{0});
    for (int i = 0; i < reader->num_record_batches(); ++i)
      group_rows_.push_back(value_of(reader->ReadRecordBatch(i))->num_rows());
  }

  std::unique_ptr<ColumnChunks> read(std::size_t group) const override {
    return std::make_unique<BatchOnce>(
        schema_, value_of(open(fields_)->ReadRecordBatch(static_cast<int>(group))), group_rows_[group]);
  }
  bool is_mapped() const override { return true; }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> open(const std::vector<int>& fields) const {
    return value_of(arrow::ipc::RecordBatchFileReader::Open(file_, options_for(fields)));
  }

  std::shared_ptr<arrow::io::MemoryMappedFile> file_;
  std::vector<int> fields_;
};

// Reads files in Arrow's streaming format, which Hugging Face's datasets writes. Such a file has one record
// batch after the other. The file is mapped. Data that is not compressed is not read before it is used.
class ArrowStream : public FileOfGroups {
 public:
  ArrowStream(const std::shared_ptr<arrow::io::MemoryMappedFile>& file,
              const std::vector<std::string>& columns) {
    const auto whole = value_of(arrow::ipc::RecordBatchStreamReader::Open(file))->schema();
    const std::vector<int> wanted = columns_named(*whole, columns);
    schema_ = only(*whole, wanted);
    check(file->Seek(0));
    const auto reader = value_of(arrow::ipc::RecordBatchStreamReader::Open(file, options_for(wanted)));
    for (;;) {
      auto batch = value_of(reader->Next());
      if (!batch) break;
      group_rows_.push_back(batch->num_rows());
      batches_.push_back(std::move(batch));
    }
    look_at_end(*file);
  }

  std::unique_ptr<ColumnChunks> read(std::size_t group) const override {
    return std::make_unique<BatchOnce>(schema_, batches_[group], group_rows_[group]);
  }
  bool is_mapped() const override { return true; }

 private:
  // Sets a warning if the file may have been cut off between two messages. Arrow itself does not notice that.
  void look_at_end(arrow::io::MemoryMappedFile& file) {
    constexpr std::int64_t kMarkBytes = 8;
    constexpr unsigned char kMark[kMarkBytes] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0};
    const std::int64_t end = value_of(file.Tell()), size = value_of(file.GetSize());
    if (end < size) throw Refusal("after its end there are " + std::to_string(size - end) + " more bytes");
    const auto last = value_of(file.ReadAt(std::max<std::int64_t>(0, end - kMarkBytes), kMarkBytes));
    if (last->size() == kMarkBytes && std::memcmp(last->data(), kMark, kMarkBytes) == 0) return;
    warning_ = "it ends without the mark that Arrow writes last: it may have been cut off there";
  }

  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
};

std::unique_ptr<ColumnFile> open(const std::string& path, const std::vector<std::string>& columns) {
  const auto file = value_of(arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ));
  const auto begin = value_of(file->ReadAt(0, 6));
  const std::string_view bytes(reinterpret_cast<const char*>(begin->data()),
                               static_cast<std::size_t>(begin->size()));
  if (bytes.starts_with("PAR1")) return std::make_unique<ParquetFile>(path, columns);
  if (bytes == "ARROW1") return std::make_unique<ArrowFile>(file, columns);
  if (bytes.starts_with("\xff\xff\xff\xff")) return std::make_unique<ArrowStream>(file, columns);
  throw Refusal(bytes.empty() ? "it is empty" : "it is neither a Parquet file nor an Arrow file");
}

}  // namespace

extern "C" [[gnu::visibility("default")]] ColumnFile* muster_open_column_file_1(
    const std::string& path, const std::vector<std::string>& columns) {
  return with_known_errors([&] { return open(path, columns).release(); });
}

}  // namespace muster
