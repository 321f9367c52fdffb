// Any bytes as Megatron's .idx and .bin: tokens must be those of the .bin in order, documents must follow
// each other, and no sample within documents may have tokens of two.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <muster/data/token_dataset.h>
#include <optional>
#include <torch/torch.h>

#include "common/base/check.h"
#include "tests/fuzz/input.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

std::optional<TokenDataset> opened(const std::string& path, const TokenDatasetOptions& options) {
  try {
    return std::optional<TokenDataset>(std::in_place, path, options);
  } catch (const std::exception& error) {
    check_refusal(Error(ErrorCode::kCorrupt, error.what()));
    return std::nullopt;
  }
}

template <class Token>
void check_tokens(const TokenDataset& dataset, std::string_view bytes) {
  CHECK(dataset.token_count() * static_cast<std::int64_t>(sizeof(Token)) == std::ssize(bytes));
  const auto token = [bytes](std::int64_t i) {
    Token value{};
    std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof value, sizeof value);
    return static_cast<std::int64_t>(value);
  };
  CHECK(dataset.size() == dataset.token_count() - 1);
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const Example sample = dataset.get(i);
    CHECK(sample.data.item<std::int64_t>() == token(i) && sample.target.item<std::int64_t>() == token(i + 1));
  }
}

void check_documents(const TokenDataset& whole, const std::optional<TokenDataset>& within) {
  const auto documents = whole.documents();
  CHECK(documents.front() == 0 && documents.back() == whole.token_count());
  std::int64_t samples = 0;
  for (std::size_t i = 0; i + 1 < documents.size(); ++i) {
    CHECK(documents[i] < documents[i + 1]);
    samples += documents[i + 1] - documents[i] - 1;
  }
  CHECK((within ? within->size() : 0) == samples, "{} samples within documents", samples);
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  static const ScratchDirectory scratch;
  FuzzInput input(data, size);
  const std::size_t index_bytes = input.byte() + 256 * input.byte();
  const std::string index(input.take(index_bytes)), tokens(input.rest());
  std::ofstream(scratch / "a.idx", std::ios::binary) << index;
  std::ofstream(scratch / "a.bin", std::ios::binary) << tokens;
  const auto whole = opened(scratch / "a.idx", {.context = 1, .stride = 1});
  const auto within = opened(scratch / "a.idx", {.context = 1, .stride = 1, .within_documents = true});
  CHECK(whole || !within);
  if (!whole) return 0;
  switch (index.at(17)) {
    case 1: check_tokens<std::uint8_t>(*whole, tokens); break;
    case 4: check_tokens<std::int32_t>(*whole, tokens); break;
    case 5: check_tokens<std::int64_t>(*whole, tokens); break;
    case 8: check_tokens<std::uint16_t>(*whole, tokens); break;
    default: CHECK(false, "tokens of type {}", index[17]);
  }
  check_documents(*whole, within);
  return 0;
}
