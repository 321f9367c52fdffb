#include <bit>
#include <fmt/format.h>
#include <muster/batch_memory.h>
#include <muster/token_dataset.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/data/argument.h"
#include "runtime/data/convert.h"
#include "runtime/data/mapped_file.h"

namespace muster {

namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

// Calls `use` with a null pointer to tokens of this type; false if there are none of it.
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
  check_argument(with_token_type(options.dtype, [](auto) {}), "TokenDataset: dtype",
                 c10::toString(options.dtype), "Byte, UInt16, UInt32, Int or Long");
}

}  // namespace

TokenDataset::TokenDataset(const std::string& path, TokenDatasetOptions options)
    : path_(path), options_(options) {
  check_options(options_);
  if (options_.stride == 0) options_.stride = options_.context;
  auto file = MappedFile::open(path);
  if (!file) throw std::runtime_error(file.error().message());
  const std::size_t size_bytes = file->bytes().size();
  const std::size_t token_bytes = c10::elementSize(options_.dtype);
  if (size_bytes % token_bytes != 0) {
    throw std::runtime_error(fmt::format(
        "cannot use {}: its {} bytes are not a whole number of {} tokens of {} bytes each; it is truncated, "
        "or of another type",
        path, size_bytes, c10::toString(options_.dtype), token_bytes));
  }
  token_count_ = static_cast<std::int64_t>(size_bytes / token_bytes);
  if (token_count_ <= options_.context) {
    throw std::runtime_error(
        fmt::format("cannot use {}: it has {} tokens, and a sample of context {} takes {}", path,
                    token_count_, options_.context, static_cast<std::uint64_t>(options_.context) + 1));
  }
  size_ = (token_count_ - 1 - options_.context) / options_.stride + 1;
  file_ = std::make_shared<const MappedFile>(*std::move(file));
}

void TokenDataset::gather(std::int64_t index, std::int64_t* data, std::int64_t* target) const {
  const std::int64_t first = index * options_.stride;
  const std::int64_t context = options_.context;
  with_token_type(options_.dtype, [&](auto none) {
    const auto tokens = reinterpret_cast<decltype(none)>(file_->bytes().data()) + first;
    if (options_.vocabulary_size > 0) {
      const std::int64_t bad = first_outside(tokens, context + 1, options_.vocabulary_size);
      if (bad >= 0) {
        throw std::runtime_error(fmt::format("token {} at place {} of the file is not below {}", tokens[bad],
                                             first + bad, options_.vocabulary_size));
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
  gather(index, sample.data.mutable_data_ptr<std::int64_t>(), sample.target.mutable_data_ptr<std::int64_t>());
  return sample;
}

Batch TokenDataset::get_batch(std::span<const std::int64_t> indices) const {
  detail::check_indices(*this, indices);
  const std::int64_t count = std::ssize(indices);
  Batch batch{.data = batch_empty({count, options_.context}, at::kLong),
              .target = batch_empty({count, options_.context}, at::kLong)};
  auto* data = batch.data.mutable_data_ptr<std::int64_t>();
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    try {
      gather(index, data, target);
    } catch (const std::exception&) {
      detail::rethrow_bad_sample(path_, index);
    }
    data += options_.context;
    target += options_.context;
  }
  return batch;
}

}  // namespace muster
