// Any bytes as a file of tokens, with any options: compares each sample with one cut by hand.
#include <array>
#include <bit>
#include <cstring>
#include <muster/data/token_dataset.h>
#include <numeric>
#include <optional>
#include <sys/mman.h>
#include <torch/torch.h>
#include <unistd.h>

#include "common/base/check.h"
#include "tests/fuzz/input.h"

namespace muster {
namespace {

struct TokenType {
  at::ScalarType type;
  std::size_t bytes;
  bool is_signed;
};
constexpr std::array kTypes = {TokenType{at::kByte, 1, false},   TokenType{at::kUInt16, 2, false},
                               TokenType{at::kUInt32, 4, false}, TokenType{at::kInt, 4, true},
                               TokenType{at::kLong, 8, true},    TokenType{at::kFloat, 4, true}};

// Mostly small numbers, and some close to the limits.
std::int64_t option(unsigned byte) {
  if (byte < 0xf0) return byte;
  return byte < 0xf8 ? std::numeric_limits<std::int64_t>::max() - (byte - 0xf0) : -std::int64_t{byte - 0xf7};
}

std::vector<std::int64_t> tokens_of(std::string_view bytes, const TokenType& type) {
  std::vector<std::int64_t> tokens;
  for (; bytes.size() >= type.bytes; bytes.remove_prefix(type.bytes)) {
    std::uint64_t token = 0;
    std::memcpy(&token, bytes.data(), type.bytes);
    const auto shift = static_cast<int>(64 - 8 * type.bytes);
    const auto high = static_cast<std::int64_t>(token << shift);
    tokens.push_back(type.is_signed ? high >> shift : static_cast<std::int64_t>(token));
  }
  return tokens;
}

bool holds(const at::Tensor& tensor, std::span<const std::int64_t> tokens) {
  return tensor.scalar_type() == at::kLong && tensor.is_contiguous() &&
         std::ranges::equal(
             std::span(static_cast<const std::int64_t*>(tensor.const_data_ptr()), tensor.numel()), tokens);
}

void check_sample(const TokenDataset& dataset, std::int64_t index, std::span<const std::int64_t> window,
                  std::int64_t vocabulary_size) {
  const bool known = vocabulary_size == 0 || std::ranges::all_of(window, [&](std::int64_t token) {
                       return token >= 0 && token < vocabulary_size;
                     });
  try {
    const Example sample = dataset.get(index);
    CHECK(known, "a token outside the vocabulary was accepted");
    CHECK(holds(sample.data, window.first(window.size() - 1)) && holds(sample.target, window.subspan(1)));
  } catch (const std::runtime_error& error) {
    CHECK(!known, "{}", error.what());
  }
}

void read(const std::string& path, std::string_view bytes, const TokenType& type,
          const TokenDatasetOptions& options) {
  std::optional<TokenDataset> dataset;
  try {
    dataset.emplace(path, options);
  } catch (const std::exception& error) {
    check_refusal(Error(ErrorCode::kCorrupt, error.what()));
    return;
  }
  // The formats with a header have their tokens elsewhere.
  if (bytes.starts_with("\x93NUMPY") || bytes.starts_with("\x88\xd8\x34\x01") ||
      bytes.starts_with("\xa1\xd9\x34\x01")) {
    try {
      for (std::int64_t index = 0; index < dataset->size(); ++index) (void)dataset->get(index);
    } catch (const std::runtime_error& error) {
      CHECK(options.vocabulary_size > 0, "{}", error.what());
    }
    return;
  }
  const std::vector<std::int64_t> tokens = tokens_of(bytes, type);
  CHECK(bytes.size() % type.bytes == 0 && dataset->token_count() == std::ssize(tokens));
  CHECK(options.context >= 1 && options.context < std::ssize(tokens) && options.stride >= 0);
  const std::int64_t stride = options.stride == 0 ? options.context : options.stride;
  const auto window_size = static_cast<std::size_t>(options.context) + 1;
  std::int64_t count = 0;
  for (std::span<const std::int64_t> rest(tokens); rest.size() >= window_size; ++count) {
    check_sample(*dataset, count, rest.first(window_size), options.vocabulary_size);
    rest = rest.subspan(std::min(static_cast<std::size_t>(stride), rest.size()));
  }
  CHECK(dataset->size() == count, "{} samples, not {}", dataset->size(), count);
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  static const int file = memfd_create("tokens", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  FuzzInput input(data, size);
  const TokenType& type = kTypes[input.byte() % kTypes.size()];
  TokenDatasetOptions options{
      .context = option(input.byte()), .stride = option(input.byte()), .dtype = type.type};
  options.vocabulary_size = option(input.byte());
  const std::string_view bytes = input.rest();
  CHECK(ftruncate(file, 0) == 0 &&
        pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  read(path, bytes, type, options);
  return 0;
}
