#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <muster/data/parquet_dataset.h>
#include <span>
#include <stdexcept>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "runtime/data/argument.h"
#include "runtime/data/datasets/column_file.h"
#include "runtime/data/datasets/file_kind.h"
#include "runtime/data/datasets/parquet_rows.h"
#include "runtime/data/datasets/token_file.h"
#include "runtime/data/order/shard_order.h"

namespace muster::detail {

// A row group of a Parquet file, or a record batch of an Arrow file.
struct RowGroup {
  std::shared_ptr<const ParquetSource> source;
  std::shared_ptr<const ColumnFile> file;
  std::size_t number;
  std::int64_t first_row;  // in the file
  std::int64_t rows;
};

class ParquetFiles {
 public:
  std::string name;
  ParquetDatasetOptions options;
  std::vector<RowGroup> groups;  // of all files, in order; empty ones are left out
  std::int64_t rows = 0;
};

namespace {

constexpr std::int64_t kMostHeld = 1 << 24;
constexpr std::int64_t kMostRows = std::int64_t{1} << 48;  // of all files; a damaged file can claim more

void check_options(const ParquetDatasetOptions& options) {
  check_argument(options.shuffle >= 0 && options.shuffle <= kMostHeld, "ParquetDataset: shuffle",
                 options.shuffle, fmt::format("from 0 to {} rows", kMostHeld));
  for (auto each = options.columns.begin(); each != options.columns.end(); ++each)
    check_argument(std::find(options.columns.begin(), each, *each) == each, "ParquetDataset: columns: a name",
                   one_line(*each), "given only once");
}

std::vector<std::string> expand(const std::vector<std::string>& patterns) {
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) {
    auto files = files_of_pattern(pattern);
    if (!files) throw std::runtime_error(files.error().message());
    std::ranges::move(*files, std::back_inserter(paths));
  }
  check_argument(!paths.empty(), "ParquetDataset: the number of files", paths.size(), "at least 1");
  return paths;
}

void check_columns(const ParquetSource& source, const ParquetSource& first) {
  for (const ArrowColumn& wanted : first.columns.children)
    if (std::ranges::find(source.columns.children, wanted.name, &ArrowColumn::name) ==
        source.columns.children.end())
      throw std::runtime_error(
          fmt::format("it has no column {}, and {} has one", one_line(wanted.name), first.path));
}

void add_file(ParquetFiles& all, const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw std::runtime_error(
        fmt::format("cannot use {0}: it is a folder; give its files, as in {0}/*.parquet", path));
  if (access(path.c_str(), R_OK) != 0)
    throw std::runtime_error(system_failure("cannot open " + path, errno).error().message());
  if (const Status usable = check_is_file_of(path, {FileKind::kParquet, FileKind::kArrow}); !usable)
    throw std::runtime_error(usable.error().message());
  try {
    const std::shared_ptr<const ColumnFile> file = open_column_file(path, all.options.columns);
    ArrowSchema schema{};
    file->export_schema(&schema);
    const auto source = std::make_shared<ParquetSource>(ParquetSource{.path = path,
                                                                      .columns = column_of(schema),
                                                                      .fill_na = all.options.fill_na,
                                                                      .is_mapped = file->is_mapped()});
    schema.release(&schema);
    if (!all.groups.empty()) check_columns(*source, *all.groups[0].source);
    if (!file->warning().empty()) log::warning("{}: {}", path, file->warning());
    std::int64_t before = 0;
    for (std::size_t i = 0; i < file->group_rows().size(); ++i) {
      const std::int64_t rows = file->group_rows()[i];
      if (rows < 0 || rows > kMostRows - all.rows - before)
        throw std::runtime_error(fmt::format("its row group {} claims to have {} rows", i, rows));
      if (rows > 0)
        all.groups.push_back(
            RowGroup{.source = source, .file = file, .number = i, .first_row = before, .rows = rows});
      before += rows;
    }
    all.rows += before;
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("cannot use {}: {}", path, one_line(error.what())));
  }
}

}  // namespace

std::shared_ptr<const ParquetFiles> open_parquet_files(const std::vector<std::string>& patterns,
                                                       const ParquetDatasetOptions& options) {
  check_options(options);
  const std::vector<std::string> paths = expand(patterns);
  auto all = std::make_shared<ParquetFiles>();
  all->name = first_and_more(paths);
  all->options = options;
  for (const std::string& path : paths) add_file(*all, path);
  if (all->rows == 0) throw std::runtime_error(fmt::format("cannot use {}: it has no rows", all->name));
  return all;
}

const std::string& name_of(const ParquetFiles& files) {
  return files.name;
}

std::int64_t row_count(const ParquetFiles& files) {
  return files.rows;
}

// In each epoch, all rows of all files have an order. The place of a row is its number in this order.
struct ParquetStream::State {
  // A place in the shuffle buffer. After the row has been read, `row` has it. If reading failed, `error` says
  // why.
  struct Held {
    std::int64_t place;
    std::optional<ParquetRow> row = {};
    std::string error = {};
  };

  State(std::shared_ptr<const ParquetFiles> all, const Shard& shard);
  ParquetRow row_at(std::int64_t place);
  void read(Held& held);
  void fill();
  void read_held();
  void draw();
  void open_group(std::size_t number);
  void next_rows();

  std::shared_ptr<const ParquetFiles> files;
  std::vector<std::size_t> order;      // of the row groups
  std::vector<std::int64_t> begins;    // the place of the first row of each group in `order`
  std::int64_t next_place, end_place;  // of the shard
  SampleRandom random;
  std::vector<Held> held;
  std::size_t read_count = 0;  // read_held() has read this many of `held`, from the front

  std::optional<std::size_t> group;  // the group that is being read, by its place in `order`
  std::unique_ptr<ColumnChunks> chunks;
  std::shared_ptr<const ParquetRows> rows;
  std::int64_t rows_begin = 0;  // the place of the first of `rows`
  std::int64_t rows_end = 0;
  std::string damage;  // why the group's rows from rows_end on cannot be read
};

ParquetStream::State::State(std::shared_ptr<const ParquetFiles> all, const Shard& shard)
    : files(std::move(all)),
      order(order_of_parts(files->groups.size(), files->options.shuffle_row_groups, shard)),
      // Divides before multiplying, because `files->rows * shard.index` could overflow.
      next_place(files->rows / shard.count * shard.index +
                 files->rows % shard.count * shard.index / shard.count),
      end_place(files->rows / shard.count * (shard.index + 1) +
                files->rows % shard.count * (shard.index + 1) / shard.count),
      random(0) {
  for (std::int64_t begin = 0; const std::size_t each : order) {
    begins.push_back(begin);
    begin += files->groups[each].rows;
  }
  SampleRandom of_run(shard.seed);
  SampleRandom of_epoch(of_run() + static_cast<std::uint64_t>(shard.epoch));
  random = SampleRandom(of_epoch() + static_cast<std::uint64_t>(shard.index));
}

void ParquetStream::State::open_group(std::size_t number) {
  group = number;
  rows_begin = rows_end = begins[number];
  rows.reset();
  damage.clear();
  const RowGroup& wanted = files->groups[order[number]];
  chunks = wanted.file->read(wanted.number);
}

void ParquetStream::State::next_rows() {
  const RowGroup& reading = files->groups[order[*group]];
  ArrowArray array{};
  rows.reset();  // frees their memory, so that the next rows can use it
  rows_begin = rows_end;
  if (!chunks->next(&array)) throw std::runtime_error("it has fewer rows than it claims");
  const std::int64_t first = reading.first_row + rows_end - begins[*group];
  rows = std::make_shared<ParquetRows>(reading.source, array, first);
  rows_end += rows->count();
}

// Returns the row at a place. Each call must ask for a later place than the call before.
ParquetRow ParquetStream::State::row_at(std::int64_t place) {
  const auto number = static_cast<std::size_t>(std::ranges::upper_bound(begins, place) - begins.begin()) - 1;
  try {
    if (group != number) open_group(number);
    while (damage.empty() && place >= rows_end) next_rows();
  } catch (const std::runtime_error& error) {
    const RowGroup& reading = files->groups[order[number]];
    const std::string why = one_line(error.what()), path = reading.source->path;
    damage = fmt::format("cannot read rows {} to {}{} (row group {}): {}",
                         reading.first_row + rows_end - begins[number], reading.first_row + reading.rows - 1,
                         why.contains(path) ? "" : " of " + path, reading.number, why);
  }
  if (place >= rows_end) throw std::runtime_error(damage);
  return {rows, place - rows_begin};
}

void ParquetStream::State::read(Held& wanted) {
  try {
    wanted.row = row_at(wanted.place);
  } catch (const std::runtime_error& error) {
    wanted.error = error.what();
  }
}

// Adds only the places of rows to the shuffle buffer. When next() needs a row, read_held() reads the rows.
void ParquetStream::State::fill() {
  for (; next_place < end_place && std::ssize(held) < files->options.shuffle; ++next_place)
    held.push_back({.place = next_place});
}

// Reads the rows in `held` that have not been read yet, in the order of their places.
void ParquetStream::State::read_held() {
  std::vector<Held*> unread;
  for (Held& each : std::span(held).subspan(read_count))
    if (!each.row && each.error.empty()) unread.push_back(&each);
  std::ranges::sort(unread, {}, [](const Held* each) { return each->place; });
  for (Held* const each : unread) read(*each);
  read_count = held.size();
}

// Chooses a row of `held` at random, and moves it to the end of `held`.
void ParquetStream::State::draw() {
  std::swap(held[static_cast<std::size_t>(random.below(std::ssize(held)))], held.back());
}

ParquetStream::ParquetStream(std::shared_ptr<const ParquetFiles> files, const Shard& shard)
    : state_(std::make_unique<State>(std::move(files), shard)) {}

ParquetStream::~ParquetStream() = default;

std::optional<ParquetRow> ParquetStream::next() {
  State& state = *state_;
  if (state.files->options.shuffle == 0) {
    if (state.next_place >= state.end_place) return std::nullopt;
    return state.row_at(state.next_place++);
  }
  state.fill();
  if (state.held.empty()) return std::nullopt;
  state.read_held();
  state.draw();
  State::Held drawn = std::move(state.held.back());
  state.held.pop_back();
  --state.read_count;
  if (!drawn.row) throw std::runtime_error(drawn.error);
  return drawn.row;
}

void ParquetStream::skip(std::int64_t count) {
  State& state = *state_;
  if (state.files->options.shuffle == 0) {
    state.next_place = std::min(state.end_place - state.next_place, count) + state.next_place;
    return;
  }
  state.read_count = 0;
  for (; count > 0; --count) {
    state.fill();
    if (state.held.empty()) return;
    state.draw();
    state.held.pop_back();
  }
}

}  // namespace muster::detail
