#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <muster/data/batch_sampler.h>
#include <numeric>

#include "runtime/data/argument.h"
#include "runtime/data/order/order.h"
#include "runtime/data/order/random_order.h"

namespace muster {

namespace {

// batches() adds this to the seed. So the order of the batches does not depend on the order of the examples.
constexpr std::uint64_t kBatchOrder = 0x9e3779b97f4a7c15;

void check_options(const BucketBatchSamplerOptions& options) {
  check_argument(options.batch_size || options.max_tokens, "BucketBatchSampler: batch_size", "none",
                 "given, or max_tokens");
  check_argument(options.batch_size.value_or(1) >= 1, "BucketBatchSampler: batch_size",
                 options.batch_size.value_or(1), "at least 1");
  check_argument(options.max_tokens.value_or(1) >= 1, "BucketBatchSampler: max_tokens",
                 options.max_tokens.value_or(1), "at least 1");
  check_argument(options.multiple_of >= 1, "BucketBatchSampler: multiple_of", options.multiple_of,
                 "at least 1");
  check_argument(options.batch_size.value_or(0) % options.multiple_of == 0, "BucketBatchSampler: batch_size",
                 options.batch_size.value_or(0), fmt::format("a multiple of {}", options.multiple_of));
  check_argument(options.window_batches >= 1, "BucketBatchSampler: window_batches", options.window_batches,
                 "at least 1");
}

void check_lengths(const std::vector<std::int64_t>& lengths, std::optional<std::int64_t> max_tokens) {
  check_argument(!lengths.empty(), "BucketBatchSampler: the number of lengths", 0, "at least 1");
  const auto [least, most] = std::ranges::minmax_element(lengths);
  check_argument(*least >= 0, fmt::format("BucketBatchSampler: lengths[{}]", least - lengths.begin()), *least,
                 "at least 0");
  check_argument(*most <= max_tokens.value_or(*most),
                 fmt::format("BucketBatchSampler: lengths[{}]", most - lengths.begin()), *most,
                 fmt::format("at most max_tokens, {}", max_tokens.value_or(0)));
}

// Returns the number of examples in a window. A window has as many examples as `window_batches` batches, if
// all examples have the mean length.
std::int64_t window_of(const std::vector<std::int64_t>& lengths, const BucketBatchSamplerOptions& options) {
  const auto size = static_cast<double>(lengths.size());
  double batch = size;
  if (options.batch_size) batch = std::min(batch, static_cast<double>(*options.batch_size));
  if (options.max_tokens) {
    const double mean = std::accumulate(lengths.begin(), lengths.end(), 0.0) / size;
    batch = std::min(batch, static_cast<double>(*options.max_tokens) / std::max(mean, 1.0));
  }
  const double window = std::min(size, batch * static_cast<double>(options.window_batches));
  const std::int64_t multiple = std::min(options.multiple_of, std::ssize(lengths));
  return divide_up(std::max<std::int64_t>(static_cast<std::int64_t>(window), 1), multiple) * multiple;
}

IndexBatches in_order(const IndexBatches& batches, const std::vector<std::int64_t>& order) {
  IndexBatches ordered;
  ordered.indices.reserve(batches.indices.size());
  ordered.offsets.reserve(batches.offsets.size());
  for (const std::int64_t number : order) {
    const auto batch = batches[number];
    ordered.indices.insert(ordered.indices.end(), batch.begin(), batch.end());
    ordered.offsets.push_back(std::ssize(ordered.indices));
  }
  return ordered;
}

}  // namespace

BucketBatchSampler::BucketBatchSampler(const std::vector<std::int64_t>& lengths,
                                       BucketBatchSamplerOptions options)
    : options_(options) {
  check_options(options);
  check_lengths(lengths, options.max_tokens);
  class_length_ = lengths;
  std::ranges::sort(class_length_, std::ranges::greater());
  class_length_.erase(std::ranges::unique(class_length_).begin(), class_length_.end());
  class_of_.reserve(lengths.size());
  class_begin_.resize(class_length_.size() + 1);
  for (const std::int64_t length : lengths) {
    const auto found = std::ranges::lower_bound(class_length_, length, std::ranges::greater());
    class_of_.push_back(static_cast<std::uint32_t>(found - class_length_.begin()));
    ++class_begin_[class_of_.back() + 1];
  }
  std::partial_sum(class_begin_.begin(), class_begin_.end(), class_begin_.begin());
  window_ = window_of(lengths, options);
  const auto limit = [](const char* name, const std::optional<std::int64_t>& value) {
    return value ? fmt::format(", {} {}", name, *value) : "";
  };
  description_ =
      fmt::format("BucketBatchSampler({} lengths of digest {}{}{}, multiple_of {}, window_batches {}, {})",
                  lengths.size(), digest_of(lengths), limit("batch_size", options.batch_size),
                  limit("max_tokens", options.max_tokens), options.multiple_of, options.window_batches,
                  options.shuffle ? fmt::format("seed {}", options.seed) : "not shuffled");
}

// Returns how many examples fit into a batch whose longest example has the length `longest`.
std::int64_t BucketBatchSampler::fitting(std::int64_t longest) const {
  std::int64_t count = options_.batch_size.value_or(std::numeric_limits<std::int64_t>::max());
  if (options_.max_tokens) count = std::min(count, *options_.max_tokens / std::max<std::int64_t>(longest, 1));
  return count;
}

// Returns all examples, one window after the other. In each window, the longest example comes first. Examples
// of the same length are in random order. This is a counting sort, which compares no examples. For 60,000
// examples, it takes a fraction of a millisecond.
std::vector<std::int64_t> BucketBatchSampler::sorted_in_windows(std::int64_t epoch) const {
  const auto count = static_cast<std::size_t>(size());
  std::vector<std::int64_t> order(count);
  if (options_.shuffle) {
    order = permutations(size(), size(), seed_of(options_.seed, epoch));
  } else {
    std::iota(order.begin(), order.end(), 0);
  }
  std::vector<std::int64_t> by_length(count);  // places in `order`
  std::vector<std::int64_t> next = class_begin_;
  for (std::size_t place = 0; place < count; ++place) {
    const std::uint32_t length_class = class_of_[static_cast<std::size_t>(order[place])];
    by_length[static_cast<std::size_t>(next[length_class]++)] = static_cast<std::int64_t>(place);
  }
  std::vector<std::int64_t> sorted(count);
  next = evenly_spaced(divide_up(size(), window_), window_, size());
  for (const std::int64_t place : by_length) {
    const auto to = static_cast<std::size_t>(next[static_cast<std::size_t>(place / window_)]++);
    sorted[to] = order[static_cast<std::size_t>(place)];
  }
  return sorted;
}

IndexBatches BucketBatchSampler::batches(std::int64_t epoch) const {
  IndexBatches all;
  all.indices = sorted_in_windows(epoch);
  for (std::int64_t window = 0; window < size(); window += window_) {
    const std::int64_t end = std::min(window + window_, size());
    for (std::int64_t first = window; first < end; first = all.offsets.back()) {
      const auto example = static_cast<std::size_t>(all.indices[static_cast<std::size_t>(first)]);
      std::int64_t count = std::min(fitting(class_length_[class_of_[example]]), end - first);
      if (count > options_.multiple_of) count -= count % options_.multiple_of;
      all.offsets.push_back(first + count);
    }
  }
  if (!options_.shuffle) return all;
  return in_order(all, permutations(all.size(), all.size(), seed_of(options_.seed, epoch) + kBatchOrder));
}

}  // namespace muster
