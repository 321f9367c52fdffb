// Tokens and tables as numpy, megatron-core and pandas write them. OWNERS_PYTHON may name a Python with all
// three; the Python environment of torch has numpy.
#include <cstdlib>
#include <filesystem>
#include <fmt/ranges.h>
#include <fstream>
#include <gtest/gtest.h>
#include <muster/data/csv_dataset.h>
#include <muster/data/token_dataset.h>
#include <sstream>
#include <torch/torch.h>

#include "tests/scratch_directory.h"

namespace muster::owners {
namespace {

std::string tokens_in(const std::string& path) {
  const TokenDataset dataset(path, {.context = 16});
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const Example sample = dataset.get(i);
    const auto* const data = sample.data.const_data_ptr<std::int64_t>();
    if (!tokens.empty()) EXPECT_EQ(tokens.back(), data[0]) << path;
    if (tokens.empty()) tokens.push_back(data[0]);
    const auto* const target = sample.target.const_data_ptr<std::int64_t>();
    tokens.insert(tokens.end(), target, target + sample.target.numel());
    EXPECT_TRUE(at::equal(sample.data.slice(0, 1), sample.target.slice(0, 0, -1))) << path;
  }
  return fmt::format("{} tokens\ndocuments {}\n{}\n", dataset.token_count(),
                     fmt::join(dataset.documents(), " "), fmt::join(tokens, " "));
}

std::string table_in(const std::string& path) {
  const CsvDataset dataset(
      path, {.label = "label",
             .categories = {{"label", {"cat", "dog", "a cat, with a comma", "a \"dog\"", "zwei\nZeilen"}}},
             .fill_na = -1});
  std::string text;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const Example sample = dataset.get(i);
    const std::span bytes(static_cast<const std::uint8_t*>(sample.data.const_data_ptr()),
                          sample.data.nbytes());
    text += fmt::format("{:02x} {}\n", fmt::join(bytes, ""), sample.target.item<std::int64_t>());
  }
  return text;
}

TEST(OwnerFiles, ReadAsTheLibrariesThatWroteThemDo) {
  const ScratchDirectory scratch;
  const char* const other = std::getenv("OWNERS_PYTHON");
  const std::string python = other != nullptr ? other : MUSTER_TORCH_PYTHON;
  if (python.empty()) GTEST_SKIP() << "torch's environment has no Python";
  const int count = other != nullptr ? 200 : 40;
  const std::string command =
      fmt::format("{} -W ignore -B {} {} 1 {}", python, OWNER_FILES_SCRIPT, scratch.path().string(), count);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT: the words are the test's
  int compared = 0;
  for (const auto& each : std::filesystem::directory_iterator(scratch.path())) {
    if (each.path().extension() != ".txt") continue;
    const std::string path = each.path().parent_path() / each.path().stem();
    std::ostringstream expected;
    expected << std::ifstream(each.path()).rdbuf();
    std::string text;
    EXPECT_NO_THROW(text = path.contains(".csv") ? table_in(path) : tokens_in(path)) << path;
    EXPECT_EQ(text, expected.str()) << path;
    ++compared;
  }
  EXPECT_GE(compared, 2 * count);
}

}  // namespace
}  // namespace muster::owners
