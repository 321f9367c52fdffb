#include <muster/data/token_dataset.h>
#include <numeric>
#include <random>
#include <torch/torch.h>

#include "bench/formats/run.h"
#include "runtime/data/datasets/convert.h"
#include "runtime/data/datasets/token_file.h"

namespace muster::bench {

namespace {

constexpr std::int64_t kTokenBatch = 16, kContext = 1024;

// Endless batches of all samples in a random order.
class Order {
 public:
  explicit Order(std::int64_t size) : order_(static_cast<std::size_t>(size)) {
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::shuffle(order_, std::mt19937_64(1));
  }
  std::span<const std::int64_t> next() {
    if (place_ + kTokenBatch > order_.size()) place_ = 0;
    place_ += kTokenBatch;
    return std::span(order_).subspan(place_ - kTokenBatch, kTokenBatch);
  }

 private:
  std::vector<std::int64_t> order_;
  std::size_t place_ = 0;
};

Open muster_tokens(const std::string& path) {
  const auto dataset = std::make_shared<const TokenDataset>(path, TokenDatasetOptions{.context = kContext});
  return [dataset](int) -> NextBatch {
    return [dataset, order = Order(dataset->size())]() mutable {
      return dataset->get_batch(order.next()).target.size(0);
    };
  };
}

// The floor: the same loops over the same mapped tokens, reusing two arrays for all batches.
Open plain(const std::string& path) {
  const auto file = std::make_shared<const TokenFile>(open_token_file(path, std::nullopt).value());
  return [file](int) -> NextBatch {
    std::vector<std::int64_t> inputs(kTokenBatch * kContext), targets(kTokenBatch * kContext);
    const auto* tokens = reinterpret_cast<const std::uint16_t*>(file->tokens);
    return [=, order = Order((file->count - 1) / kContext)]() mutable {
      std::int64_t at = 0;
      for (const std::int64_t sample : order.next()) {
        widen_tokens(tokens + sample * kContext, kContext, inputs.data() + at);
        widen_tokens(tokens + sample * kContext + 1, kContext, targets.data() + at);
        at += kContext;
      }
      return kTokenBatch;
    };
  };
}

Forms tokens(const std::string& end) {
  return {{"plain", [end](const std::string& folder) { return plain(tokens_in(folder) + end); }},
          {"muster", [end](const std::string& folder) { return muster_tokens(tokens_in(folder) + end); }}};
}

}  // namespace

Forms npy() {
  return tokens(".npy");
}

Forms megatron() {
  return tokens("");
}

}  // namespace muster::bench
