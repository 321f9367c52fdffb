#include <cstdlib>
#include <filesystem>
#include <fmt/ranges.h>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/data/data_loader.h>
#include <muster/data/parquet_dataset.h>
#include <random>
#include <set>
#include <stdexcept>
#include <torch/torch.h>

#include "tests/scratch_directory.h"

namespace muster::parquet {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

std::string python() {
  const char* const other = std::getenv("OWNERS_PYTHON");
  return other != nullptr ? other : MUSTER_TORCH_PYTHON;
}

int run(const std::string& command) {
  return std::system(command.c_str());  // NOLINT: the words are the test's
}

std::string why_not() {
  static const bool there =
      std::string(MUSTER_TORCH_PYTHON) != "" &&
      run(python() +
          " -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec(\"pyarrow\"))'") == 0;
  return there ? "" : "there is no pyarrow";
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

std::string hex(const void* bytes, std::size_t size) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : std::span(static_cast<const std::uint8_t*>(bytes), size)) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}
std::string hex(std::string_view text) {
  return "x" + hex(text.data(), text.size());
}

// As numpy names the type.
std::string name_of(at::ScalarType type) {
  switch (type) {
    case at::kBool: return "bool";
    case at::kChar: return "int8";
    case at::kByte: return "uint8";
    case at::kShort: return "int16";
    case at::kUInt16: return "uint16";
    case at::kInt: return "int32";
    case at::kUInt32: return "uint32";
    case at::kLong: return "int64";
    case at::kUInt64: return "uint64";
    case at::kHalf: return "float16";
    case at::kFloat: return "float32";
    case at::kDouble: return "float64";
    default: return c10::toString(type);
  }
}

// A row as parquet_files.py writes it. The first letter of a column's name says how to read it.
std::string value_of(const ParquetRow& row, const std::string& column) {
  if (row.is_null(column)) return "-";
  switch (column[0]) {
    case 'n': return std::to_string(row.number(column));
    case 'r': {
      const double value = row.real(column);
      return hex(&value, sizeof value);
    }
    case 't': return hex(row.text(column));
    case 'b':
    case 'i': {
      const auto bytes = row.bytes(column);
      return hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
    case 's': {
      std::vector<std::string> texts;
      for (const std::string& each : row.texts(column)) texts.push_back(hex(each));
      return fmt::format("[{}]", fmt::join(texts, ","));
    }
    default: {
      const at::Tensor tensor = row.tensor(column);
      EXPECT_TRUE(tensor.is_contiguous());
      return fmt::format("{}[{}]{}", name_of(tensor.scalar_type()), fmt::join(tensor.sizes(), ","),
                         hex(tensor.const_data_ptr(), tensor.nbytes()));
    }
  }
}

// The columns that a line of values names.
std::vector<std::string> columns_in(const std::string& line) {
  std::vector<std::string> columns;
  std::istringstream words(line);
  for (std::string word; words >> word;) columns.push_back(word.substr(0, word.find('=')));
  return columns;
}

using Lines = std::vector<std::string>;
Lines lines_of(const std::string& path) {
  Lines lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// All rows in the form of the expected lines.
Lines read(const std::string& path, const Lines& expected, ParquetDatasetOptions options = {}) {
  const std::vector<std::string> columns = columns_in(expected.empty() ? "" : expected[0]);
  const ParquetDataset dataset(
      {path},
      [&](const ParquetRow& row) {
        std::vector<std::string> values;
        for (const std::string& column : columns) values.push_back(column + "=" + value_of(row, column));
        return fmt::format("{}", fmt::join(values, " "));
      },
      std::move(options));
  Lines lines;
  const auto reader = dataset.open({});
  while (auto line = reader->next()) lines.push_back(*std::move(line));
  return lines;
}

std::int64_t number(const ParquetRow& row) {
  return row.number("n");
}

template <class Stream>
std::vector<std::int64_t> all_of(const Stream& dataset, const Shard& shard = {}) {
  std::vector<std::int64_t> numbers;
  const auto reader = dataset.open(shard);
  while (const auto each = reader->next()) numbers.push_back(*each);
  return numbers;
}

std::vector<std::int64_t> list(const at::Tensor& batch) {
  return {batch.data_ptr<std::int64_t>(), batch.data_ptr<std::int64_t>() + batch.numel()};
}

class ParquetDatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  }
  // Runs lines of Python with numpy as np, pyarrow as pa and pyarrow.parquet as pq, in the scratch directory.
  void make(const std::string& lines) {
    write(scratch_ / "make.py",
          "import numpy as np, pyarrow as pa, pyarrow.parquet as pq, pyarrow.feather as feather\n" + lines);
    ASSERT_EQ(run("cd " + folder() + " && " + python() + " make.py"), 0) << lines;
  }
  // Writes a.parquet to d.parquet with the numbers from 0 to 119 in column n, in row groups of several sizes.
  void make_numbers() {
    make(
        "at = 0\n"
        "for name, rows, group in [('a', 50, 7), ('b', 1, 1), ('c', 0, 1), ('d', 69, 20)]:\n"
        "  pq.write_table(pa.table({'n': np.arange(at, at + rows)}), name + '.parquet', "
        "row_group_size=group)\n"
        "  at += rows\n");
  }
  std::string path(const std::string& name) const { return scratch_ / name; }
  std::string folder() const { return scratch_.path(); }

  ScratchDirectory scratch_;
};

struct Drawn {
  std::string file;
  Lines expected;
};
std::vector<Drawn> draw_files(const std::string& folder, int count) {
  const char* const named = std::getenv("PARQUET_WRITERS");
  const char* const seed = std::getenv("PARQUET_SEED");
  const std::string command =
      fmt::format("{} -B {} {} {} {} {}", python(), PARQUET_FILES_SCRIPT, folder,
                  seed == nullptr ? "1" : seed, count, named == nullptr ? "pyarrow" : named);
  EXPECT_EQ(run(command), 0) << command;
  std::set<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(folder))
    if (each.path().extension() == ".txt") names.insert(each.path().parent_path() / each.path().stem());
  std::vector<Drawn> drawn;
  for (const std::string& name : names) drawn.push_back({.file = name, .expected = lines_of(name + ".txt")});
  EXPECT_GT(std::ssize(drawn), count / 2);
  return drawn;
}

TEST_F(ParquetDatasetTest, HasTheValuesAndTheOrderOfTheLibrariesThatWroteTheFiles) {
  const int count = std::getenv("PARQUET_WRITERS") != nullptr ? 200 : 60;
  int rows = 0;
  for (const Drawn& each : draw_files(folder(), count)) {
    if (each.expected.empty()) {
      EXPECT_THAT([&] { read(each.file, {}); },
                  ThrowsMessage<std::runtime_error>("cannot use " + each.file + ": it has no rows"));
      continue;
    }
    Lines lines;
    EXPECT_NO_THROW(lines = read(each.file, each.expected)) << each.file;
    EXPECT_EQ(lines.size(), each.expected.size()) << each.file;
    for (std::size_t i = 0; i < std::min(lines.size(), each.expected.size()); ++i)
      ASSERT_EQ(lines[i], each.expected[i]) << each.file << ", row " << i;
    rows += static_cast<int>(lines.size());
  }
  EXPECT_GT(rows, 10 * count);
}

// A file that is cut, emptied, or has a changed byte gives an error that names it, or all its rows. The next
// test is about bytes that a checksum covers.
TEST_F(ParquetDatasetTest, ADamagedFileIsAnErrorOrHasAllItsRows) {
  std::mt19937_64 random(7);
  int errors = 0, tried = 0;
  const auto try_it = [&](const std::string& bytes, const Drawn& each, const char* what) {
    const std::string damaged = path("damaged.parquet");
    write(damaged, bytes);
    ++tried;
    try {
      EXPECT_EQ(read(damaged, each.expected).size(), each.expected.size()) << each.file << ": " << what;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr(damaged)) << what;
      EXPECT_THAT(std::string(error.what()), testing::Not(HasSubstr("\n"))) << what;
      ++errors;
    }
  };
  for (const Drawn& each : draw_files(folder(), 25)) {
    if (each.expected.empty()) continue;
    const std::string whole = contents_of(each.file);
    const auto place = [&] { return static_cast<std::size_t>(random() % whole.size()); };
    // A stream that is cut after a record batch gives a warning, which this test ignores.
    if (!each.file.ends_with(".arrow")) try_it(whole.substr(0, place()), each, "cut");
    try_it("", each, "empty");
    for (int i = 0; i < 6; ++i) {
      std::string bytes = whole;
      bytes[place()] ^= static_cast<char>(1 << random() % 8);
      try_it(bytes, each, "one bit");
    }
  }
  EXPECT_GT(errors, tried / 4);
}

TEST_F(ParquetDatasetTest, AChecksumFindsEachDamagedPage) {
  make(
      "rng = np.random.default_rng(1)\n"
      "for c in ['none', 'snappy', 'gzip', 'zstd', 'lz4']:\n"
      "  values = rng.integers(0, 99, 400)\n"
      "  pq.write_table(pa.table({'n': values}), c + '.parquet', compression=c, write_page_checksum=True,\n"
      "                 use_dictionary=False, row_group_size=200)\n"
      "  column = pq.ParquetFile(c + '.parquet').metadata.row_group(1).column(0)\n"
      "  print(column.data_page_offset, column.total_compressed_size, file=open(c + '.txt', 'w'))\n");
  std::mt19937_64 random(5);
  for (const std::string compression : {"none", "snappy", "gzip", "zstd", "lz4"}) {
    std::size_t at = 0, size = 0;
    std::ifstream(path(compression + ".txt")) >> at >> size;
    ASSERT_GT(size, 150U);
    const std::string whole = contents_of(path(compression + ".parquet"));
    for (int i = 0; i < 20; ++i) {
      std::string bytes = whole;
      constexpr std::size_t kHeader = 100;  // more than the page's header, which has no checksum
      bytes[at + kHeader + random() % (size - kHeader)] ^= static_cast<char>(1 << random() % 8);
      write(path("damaged.parquet"), bytes);
      const ParquetDataset dataset({path("damaged.parquet")}, number);
      const auto reader = dataset.open({});
      for (int row = 0; row < 200; ++row) EXPECT_TRUE(reader->next());
      // One error for each row, so that a loader can skip and count them.
      for (int row = 200; row < 400; ++row)
        EXPECT_THAT(
            [&] { reader->next(); },
            ThrowsMessage<std::runtime_error>(AllOf(
                StartsWith("cannot read rows 200 to 399 of " + path("damaged.parquet") + " (row group 1): "),
                HasSubstr("CRC"))));
      EXPECT_FALSE(reader->next());
    }
  }
}

TEST_F(ParquetDatasetTest, ALoopsErrorNamesTheFileOnce) {
  make("pq.write_table(pa.table({'n': [1, 2]}), 'n.parquet')\n");
  const ParquetDataset dataset({path("n.parquet")}, [](const ParquetRow& row) { return row.number("m"); });
  DataLoader loader(dataset, {.batch_size = 2}, 0, 1);
  EXPECT_THAT(
      [&] {
        for ([[maybe_unused]] auto& batch : loader) {
        }
      },
      ThrowsMessage<std::runtime_error>(
          "epoch 0, batch 0 of shard 0 of 1: cannot load sample 0 of shard 0 of 1: "
          "row 0 of " +
          path("n.parquet") + " has no column \"m\", but n"));
}

TEST_F(ParquetDatasetTest, ShardsShareTheRowsAndShufflingKeepsEachRow) {
  make_numbers();
  for (const ParquetDatasetOptions& options : {ParquetDatasetOptions{},
                                               {.shuffle_row_groups = true},
                                               {.shuffle = 16},
                                               {.shuffle_row_groups = true, .shuffle = 300}}) {
    const ParquetDataset dataset({path("*.parquet")}, number, options);
    EXPECT_EQ(dataset.row_count(), 120);
    for (const std::int64_t count : {1, 3, 7, 200}) {
      std::vector<std::int64_t> all;
      for (std::int64_t index = 0; index < count; ++index) {
        const auto mine = all_of(dataset, {.index = index, .count = count, .epoch = 2, .seed = 5});
        EXPECT_GE(std::ssize(mine), 120 / count);
        EXPECT_LE(std::ssize(mine), 120 / count + 1);
        all.insert(all.end(), mine.begin(), mine.end());
      }
      const bool is_shuffled = options.shuffle > 0 || options.shuffle_row_groups;
      if (count <= 7) EXPECT_EQ(std::ranges::is_sorted(all), !is_shuffled);
      std::ranges::sort(all);
      ASSERT_EQ(all.size(), 120U);
      for (std::int64_t i = 0; i < 120; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], i);
    }
    const Shard first{.epoch = 0, .seed = 5}, again{.epoch = 1, .seed = 5};
    EXPECT_EQ(all_of(dataset, first), all_of(dataset, first));
    EXPECT_EQ(all_of(dataset, first) == all_of(dataset, again),
              options.shuffle == 0 && !options.shuffle_row_groups);
  }
}

// The rest of an epoch and the next one, whatever the number of ranks and workers.
TEST_F(ParquetDatasetTest, AResumedRunHasTheSameRest) {
  make_numbers();
  const ParquetDataset dataset({path("*.parquet")}, number, {.shuffle_row_groups = true, .shuffle = 16});
  const auto rest_of = [&](auto& loader, std::int64_t epochs) {
    std::vector<std::vector<std::int64_t>> batches;
    for (auto& batch : loader.epochs(epochs)) batches.push_back(list(batch));
    return batches;
  };
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int workers : {0, 1, 2, 3}) {
      for (int rank = 0; rank < ranks; ++rank) {
        const DataLoaderOptions options{.batch_size = 4, .num_workers = workers, .seed = 3};
        DataLoader whole(dataset, options, rank, ranks), resumed(dataset, options, rank, ranks);
        const auto expected = rest_of(whole, 2);
        const auto stop = static_cast<std::size_t>(3 + rank);
        DataLoader broken(dataset, options, rank, ranks);
        std::size_t taken = 0;
        for (auto& batch : broken) {
          EXPECT_EQ(list(batch), expected[taken]);
          if (++taken == stop) break;
        }
        resumed.load_state(broken.state());
        const auto rest = rest_of(resumed, 2);
        ASSERT_EQ(rest.size(), expected.size() - stop) << ranks << " ranks, " << workers << " workers";
        EXPECT_TRUE(
            std::equal(rest.begin(), rest.end(), expected.begin() + static_cast<std::ptrdiff_t>(stop)));
      }
    }
  }
}

TEST_F(ParquetDatasetTest, ARunResumedWithAnotherNumberOfRanksHasTheSameRest) {
  make_numbers();
  const ParquetDataset dataset({path("*.parquet")}, number, {.shuffle = 8});
  const auto options = [](int workers) {
    return DataLoaderOptions{.batch_size = 4, .num_workers = workers, .seed = 3, .shards = 6};
  };
  std::multiset<std::int64_t> seen;
  std::vector<DataLoaderState> states;
  for (const int rank : {0, 1, 2}) {
    DataLoader loader(dataset, options(2), rank, 3);
    int taken = 0;
    for (auto& batch : loader) {
      for (const std::int64_t each : list(batch)) seen.insert(each);
      if (++taken == 4) break;
    }
    states.push_back(loader.state());
  }
  std::vector<std::int64_t> of_shards;
  for (const DataLoaderState& each : states)
    of_shards.insert(of_shards.end(), each.of_shards.begin(), each.of_shards.end());
  for (const int rank : {0, 1}) {
    DataLoader loader(dataset, options(3), rank, 2);
    DataLoaderState state = loader.state();
    const auto first = of_shards.begin() + state.first_shard;
    state.of_shards.assign(first, first + std::ssize(state.of_shards));
    loader.load_state(state);
    for (auto& batch : loader)
      for (const std::int64_t each : list(batch)) seen.insert(each);
  }
  ASSERT_EQ(seen.size(), 120U);
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 120U);
}

// Two rows; some values of their columns cannot be read.
class ParquetRowTest : public ParquetDatasetTest {
 protected:
  void SetUp() override {
    ParquetDatasetTest::SetUp();
    if (IsSkipped()) return;
    make(
        "columns = {'n': pa.array([1, None], pa.int32()), 'r': pa.array([0.5, None]), 'text': ['a', None],\n"
        "  'big': pa.array([2**63, 1], pa.uint64()), 'cost': pa.array([1, 2], pa.decimal128(9, 2)),\n"
        "  'list': pa.array([[1.0, None], None], pa.list_(pa.float32())), 'ragged': [[[1], [2, 3]], [[1]]],\n"
        "  'dot.ted': [7, 8], 'when': pa.array([5, 6], pa.timestamp('us')),\n"
        "  'image': [{'bytes': None, 'path': 'cat/1.png'}, {'bytes': b'xy', 'path': None}]}\n"
        "pq.write_table(pa.table(columns), 't.parquet')\n");
  }
  // The text that `use` throws for row number `index`; "none" if it throws nothing.
  using Use = std::function<void(const ParquetRow&)>;
  std::string refusal(std::int64_t index, const Use& use, std::optional<double> fill = {}) const {
    const auto decode = [&](const ParquetRow& row) {
      if (row.index() == index) use(row);
      return row.index();
    };
    try {
      all_of(ParquetDataset({file()}, decode, {.fill_na = fill}));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "none";
  }
  std::string file() const { return path("t.parquet"); }
  static constexpr const char* kColumns = "n, r, text, big, cost, list, ragged, dot.ted, when, image";
};

TEST_F(ParquetRowTest, NamesAValueThatItCannotReturn) {
  const std::string row0 = "row 0 of " + file() + ": column ", row1 = "row 1 of " + file() + ": column ";
  EXPECT_EQ(refusal(0, [](const auto& row) { row.number("label"); }),
            "row 0 of " + file() + " has no column \"label\", but " + kColumns);
  EXPECT_EQ(
      refusal(1, [](const auto& row) { row.number("n"); }),
      row1 + "\"n\" is null: ask is_null() first, or set the option fill_na to give such numbers a value");
  EXPECT_EQ(refusal(1, [](const auto& row) { row.text("text"); }),
            row1 + "\"text\" is null: ask is_null() first");
  EXPECT_EQ(refusal(1, [](const auto& row) { row.tensor("list"); }),
            row1 + "\"list\" is null: ask is_null() first");
  EXPECT_EQ(refusal(0, [](const auto& row) { row.tensor("list"); }),
            row0 + "\"list\" has a null in its list: set the option fill_na to give such numbers a value");
  EXPECT_EQ(refusal(0, [](const auto& row) { row.text("n"); }),
            row0 + "\"n\" is of the type int32, and not a text");
  EXPECT_EQ(refusal(0, [](const auto& row) { row.number("r"); }),
            row0 + "\"r\" is of the type double, and not a whole number");
  EXPECT_EQ(refusal(0, [](const auto& row) { row.number("big"); }),
            row0 + "\"big\" is 9223372036854775808, which is above the largest int64");
  EXPECT_THAT(refusal(0, [](const auto& row) { row.real("cost"); }),
              StartsWith(row0 + "\"cost\" is of the type decimal, which cannot be read"));
  EXPECT_EQ(refusal(0, [](const auto& row) { row.tensor("ragged"); }),
            row0 + "\"ragged\" has lists of 1 and of 2 values in one list, which cannot be a tensor");
  EXPECT_THAT(refusal(0, [](const auto& row) { row.bytes("image"); }),
              StartsWith(row0 + "\"image\" has no bytes but the path cat/1.png: it was not embedded"));
}

TEST_F(ParquetRowTest, FillsNumbersThatAreNull) {
  const auto second = [](const ParquetRow& row) {
    EXPECT_EQ(row.number("n"), -1);
    EXPECT_EQ(row.real("r"), -1);
    EXPECT_EQ(row.real("n"), -1);
    EXPECT_TRUE(at::equal(row.tensor("n"), at::full({}, -1, at::kInt)));
  };
  EXPECT_EQ(refusal(1, second, -1), "none");
  const auto first = [](const ParquetRow& row) {
    EXPECT_TRUE(at::equal(row.tensor("list"), at::tensor({1.0F, -1.0F})));
  };
  EXPECT_EQ(refusal(0, first, -1), "none");
  const std::string row1 = "row 1 of " + file() + ": column ";
  EXPECT_EQ(refusal(
                1, [](const auto& row) { row.number("n"); }, 0.5),
            row1 + "\"n\" is null, and fill_na = 0.5 is not of type int32");
  EXPECT_EQ(refusal(
                1, [](const auto& row) { row.tensor("list"); }, 1),
            row1 + "\"list\" is null: ask is_null() first");
  EXPECT_EQ(refusal(
                1, [](const auto& row) { row.tensor("n"); }, 3e9),
            row1 + "\"n\" is null, and fill_na = 3000000000 is not of type int32");
}

TEST_F(ParquetDatasetTest, AUnionIsNotNull) {
  make(
      "u = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([5, 6]), pa.array(['a', 'b'])])\n"
      "t = pa.table({'u': u})\n"
      "with pa.ipc.new_file('u.arrow', t.schema) as w: w.write_table(t)\n");
  const ParquetDataset dataset({path("u.arrow")},
                               [](const ParquetRow& row) { return std::int64_t{row.is_null("u")}; });
  EXPECT_THAT(all_of(dataset), ElementsAre(0, 0));
}

// Writers may leave out the offsets of an array that has no lists.
TEST_F(ParquetDatasetTest, AListOfNoListsIsATensorWithoutElements) {
  make(
      "def lists(values, count, offsets):\n"
      "  return pa.Array.from_buffers(pa.list_(values.type), count, [None, pa.py_buffer(offsets)],\n"
      "                               children=[values])\n"
      "v = lists(lists(lists(pa.array([], pa.int64()), 0, b''), 0, b''), 2, bytes(12))\n"
      "t = pa.table({'v': v})\n"
      "with pa.ipc.new_file('v.arrow', t.schema) as w: w.write_table(t)\n");
  const ParquetDataset dataset({path("v.arrow")}, [](const ParquetRow& row) { return row.tensor("v"); });
  const std::optional<at::Tensor> tensor = dataset.open({})->next();
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->sizes(), (std::vector<std::int64_t>{0, 0, 0}));
}

TEST_F(ParquetRowTest, FindsColumnsWithDotsAndFieldsOfStructs) {
  EXPECT_EQ(refusal(0, [](const auto& row) { EXPECT_EQ(row.text("image.path"), "cat/1.png"); }), "none");
  const auto second = [](const ParquetRow& row) {
    EXPECT_EQ(row.number("dot.ted"), 8);
    EXPECT_EQ(row.number("when"), 6);
    EXPECT_EQ(row.bytes("image").size(), 2U);
    EXPECT_TRUE(row.is_null("image.path"));
  };
  EXPECT_EQ(refusal(1, second), "none");
}

TEST_F(ParquetRowTest, NamesAnOptionThatItCannotUse) {
  EXPECT_THAT([&] { ParquetDataset({file()}, number, {.columns = {"n", "label"}}); },
              ThrowsMessage<std::runtime_error>("cannot use " + file() + ": it has no column label, but " +
                                                kColumns));
  EXPECT_THAT(
      [&] { ParquetDataset({file()}, number, {.columns = {"n", "n"}}); },
      ThrowsMessage<std::invalid_argument>("ParquetDataset: columns: a name = n must be given only once"));
  EXPECT_THAT(
      [&] { ParquetDataset({file()}, number, {.shuffle = -1}); },
      ThrowsMessage<std::invalid_argument>("ParquetDataset: shuffle = -1 must be from 0 to 16777216 rows"));
  EXPECT_THAT(
      [&] { ParquetDataset(std::vector<std::string>{}, number); },
      ThrowsMessage<std::invalid_argument>("ParquetDataset: the number of files = 0 must be at least 1"));
}

TEST_F(ParquetDatasetTest, NamesAFileThatItCannotUse) {
  make(
      "t = pa.table({'n': [1, 2]})\n"
      "pq.write_table(t, 'n.parquet')\n"
      "pq.write_table(pa.table({'m': [1, 2]}), 'm.parquet')\n"
      "np.save('x.npy', np.arange(3))\n"
      "open('x.txt', 'w').write('n\\n1\\n')\n"
      "s = pa.BufferOutputStream()\n"
      "with pa.ipc.new_stream(s, t.schema) as w: w.write_table(t)\n"
      "open('whole.arrow', 'wb').write(s.getvalue())\n"
      "open('cut.arrow', 'wb').write(s.getvalue()[:-8])\n"
      "open('more.arrow', 'wb').write(s.getvalue().to_pybytes() * 2)\n");
  const auto refusal = [&](const std::vector<std::string>& names) {
    try {
      ParquetDataset dataset(names, number);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal({path("x.npy")}),
            "cannot use " + path("x.npy") + ": it is a numpy array, as np.save() writes");
  EXPECT_EQ(refusal({path("x.txt")}),
            "cannot use " + path("x.txt") + ": it is neither a Parquet file nor an Arrow file");
  EXPECT_EQ(refusal({path("none.parquet")}),
            "cannot open " + path("none.parquet") + ": No such file or directory");
  EXPECT_EQ(refusal({path("none*.parquet")}),
            "cannot open " + path("none*.parquet") + ": No such file or directory");
  EXPECT_EQ(refusal({folder()}),
            "cannot use " + folder() + ": it is a folder; give its files, as in " + folder() + "/*.parquet");
  EXPECT_EQ(
      refusal({path("n.parquet"), path("m.parquet")}),
      "cannot use " + path("m.parquet") + ": it has no column n, and " + path("n.parquet") + " has one");
  EXPECT_EQ(refusal({"s3://bucket/n.parquet"}),
            "cannot use s3://bucket/n.parquet: it is a URL; download the file first");
  EXPECT_THAT(refusal({path("more.arrow")}), HasSubstr("more bytes"));
  EXPECT_THAT(all_of(ParquetDataset({path("whole.arrow")}, number)), ElementsAre(1, 2));
  testing::internal::CaptureStderr();
  EXPECT_THAT(all_of(ParquetDataset({path("cut.arrow")}, number)), ElementsAre(1, 2));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("cut.arrow: it ends without the mark that Arrow writes last"));
}

}  // namespace
}  // namespace muster::parquet
