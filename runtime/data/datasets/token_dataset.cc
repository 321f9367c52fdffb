#include <algorithm>
#include <fmt/format.h>
#include <muster/data/batch_memory.h>
#include <muster/data/token_dataset.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/data/argument.h"
#include "runtime/data/datasets/convert.h"
#include "runtime/data/datasets/token_file.h"

namespace muster {

namespace {

// Calls `use` with a null pointer. The type of the pointer tells `use` the type of the tokens. Returns false
// if tokens cannot have this type.
template <class Use>
bool with_token_type(at::ScalarType type, const Use& use) {
  switch (type) {
    case at::ScalarType::Byte: use(static_cast<const std::uint8_t*>(nullptr)); return true;
    case at::ScalarType::UInt16: use(static_cast<const std::uint16_t*>(nullptr)); return true;
    case at::ScalarType::UInt32: use(static_cast<const std::uint32_t*>(nullptr)); return true;
    case at::ScalarType::Int: use(static_cast<const std::int32_t*>(nullptr)); return true;
    case at::ScalarType::Long: use(static_cast<const std::int64_t*>(nullptr)); return true;
    default: return false;
  }
}

void check_options(const TokenDatasetOptions& options) {
  check_argument(options.context >= 1, "TokenDataset: context", options.context, "at least 1");
  check_argument(options.stride >= 0, "TokenDataset: stride", options.stride,
                 "at least 1, or 0 for the context");
  check_argument(options.vocabulary_size >= 0, "TokenDataset: vocabulary_size", options.vocabulary_size,
                 "at least 1, or 0 to take any token");
  if (options.dtype)
    check_argument(with_token_type(*options.dtype, [](auto) {}), "TokenDataset: dtype",
                   c10::toString(*options.dtype), "Byte, UInt16, UInt32, Int or Long");
}

// Returns how many samples fit into `tokens` tokens that follow each other.
std::int64_t samples_in(std::int64_t tokens, const TokenDatasetOptions& options) {
  return tokens <= options.context ? 0 : (tokens - 1 - options.context) / options.stride + 1;
}

// Fetches the first bytes of the next sample into the cache while the caller copies the sample before it.
// This saves a quarter of the time, because in a random order the processor cannot predict where a sample
// begins. The processor fetches the later bytes of a sample by itself.
void fetch_ahead(const std::byte* tokens, std::size_t size_bytes) {
  constexpr std::size_t kLineBytes = 64, kMostBytes = 4096;
  for (std::size_t at = 0; at < std::min(size_bytes, kMostBytes); at += kLineBytes)
    __builtin_prefetch(tokens + at);
}

std::vector<std::string> files_of(const std::string& pattern) {
  auto files = files_of_pattern(pattern);
  if (!files) throw std::runtime_error(files.error().message());
  return *std::move(files);
}

}  // namespace

struct TokenDataset::Part {
  TokenFile file;
  std::int64_t first_sample;
  // For each document, the number of the first sample that is in it. The samples of this file are counted
  // from 0. Empty if a sample can extend over several documents.
  std::vector<std::int64_t> first_samples;
};

TokenDataset::TokenDataset(const std::string& path, TokenDatasetOptions options)
    : TokenDataset(files_of(path), options) {}

TokenDataset::TokenDataset(const std::vector<std::string>& paths, TokenDatasetOptions options)
    : options_(options) {
  check_options(options_);
  check_argument(!paths.empty(), "TokenDataset: the number of files", paths.size(), "at least 1");
  if (options_.stride == 0) options_.stride = options_.context;
  name_ = first_and_more(paths);
  auto parts = std::make_shared<std::vector<Part>>();
  for (const std::string& path : paths) parts->push_back(part_of(path));
  parts_ = std::move(parts);
  if (size_ == 0) {
    throw std::runtime_error(
        fmt::format("cannot use {}: {} has {} tokens, and a sample of context {} takes {}", name_,
                    options_.within_documents ? "no document of it is long enough: it" : "it", token_count_,
                    options_.context, static_cast<std::uint64_t>(options_.context) + 1));
  }
}

TokenDataset::Part TokenDataset::part_of(const std::string& path) {
  auto file = open_token_file(path, options_.dtype);
  if (!file) throw std::runtime_error(file.error().message());
  Part part{.file = *std::move(file), .first_sample = size_, .first_samples = {}};
  if (options_.within_documents) {
    const auto& documents = part.file.documents;
    std::int64_t samples = 0;
    for (std::size_t i = 0; i + 1 < documents.size(); ++i) {
      part.first_samples.push_back(samples);
      samples += samples_in(documents[i + 1] - documents[i], options_);
    }
    size_ += samples;
  } else {
    size_ += samples_in(part.file.count, options_);
  }
  token_count_ += part.file.count;
  return part;
}

std::vector<std::int64_t> TokenDataset::documents() const {
  std::vector<std::int64_t> all{0};
  for (const Part& part : *parts_) {
    const std::int64_t before = all.back();
    for (const std::int64_t begin : part.file.documents)
      if (begin > 0) all.push_back(before + begin);
  }
  return all;
}

// Where a sample begins.
struct TokenDataset::Place {
  const Part* part = nullptr;
  std::int64_t first = 0;  // the first token's number in the file
  const std::byte* tokens() const {
    return part->file.tokens + static_cast<std::size_t>(first) * c10::elementSize(part->file.dtype);
  }
};

TokenDataset::Place TokenDataset::place_of(std::int64_t index) const {
  const Part& part = *std::prev(std::ranges::upper_bound(*parts_, index, {}, &Part::first_sample));
  std::int64_t first = (index - part.first_sample) * options_.stride;
  if (!part.first_samples.empty()) {
    const auto document = std::prev(std::ranges::upper_bound(part.first_samples, index - part.first_sample));
    first = part.file.documents[static_cast<std::size_t>(document - part.first_samples.begin())] +
            (index - part.first_sample - *document) * options_.stride;
  }
  return {.part = &part, .first = first};
}

void TokenDataset::gather(const Place& place, std::int64_t* data, std::int64_t* target) const {
  const Part& part = *place.part;
  const std::int64_t context = options_.context;
  with_token_type(part.file.dtype, [&](auto none) {
    const auto tokens = reinterpret_cast<decltype(none)>(place.tokens());
    if (options_.vocabulary_size > 0) {
      const std::int64_t bad = first_outside(tokens, context + 1, options_.vocabulary_size);
      if (bad >= 0) {
        throw std::runtime_error(
            fmt::format("token {} at place {} of {} is not below {}", tokens[bad], place.first + bad,
                        parts_->size() == 1 ? "the file" : part.file.path, options_.vocabulary_size));
      }
    }
    widen_tokens(tokens, context, data);
    widen_tokens(tokens + 1, context, target);
  });
}

Example TokenDataset::get(std::int64_t index) const {
  detail::check_index(*this, index);
  Example sample{.data = batch_empty({options_.context}, at::kLong),
                 .target = batch_empty({options_.context}, at::kLong)};
  gather(place_of(index), sample.data.mutable_data_ptr<std::int64_t>(),
         sample.target.mutable_data_ptr<std::int64_t>());
  return sample;
}

Batch TokenDataset::get_batch(std::span<const std::int64_t> indices) const {
  detail::check_indices(*this, indices);
  const std::int64_t count = std::ssize(indices);
  Batch batch{.data = batch_empty({count, options_.context}, at::kLong),
              .target = batch_empty({count, options_.context}, at::kLong)};
  auto* data = batch.data.mutable_data_ptr<std::int64_t>();
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  Place next = indices.empty() ? Place() : place_of(indices.front());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Place place = next;
    if (i + 1 < indices.size()) {
      next = place_of(indices[i + 1]);
      fetch_ahead(next.tokens(),
                  static_cast<std::size_t>(options_.context) * c10::elementSize(next.part->file.dtype));
    }
    try {
      gather(place, data, target);
    } catch (const std::exception&) {
      detail::rethrow_bad_sample(name_, indices[i]);
    }
    data += options_.context;
    target += options_.context;
  }
  return batch;
}

}  // namespace muster
