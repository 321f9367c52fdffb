#include <muster/data/token_dataset.h>
#include <torch/torch.h>

#include "bench/loader/run.h"
#include "runtime/data/datasets/convert.h"
#include "runtime/data/datasets/mapped_file.h"

namespace muster::bench {

namespace {

constexpr std::int64_t kTokenBatch = 16, kContext = 2048;

Open muster_tokens(const std::string& data) {
  return muster_loader<Example>(
      std::make_shared<TokenDataset>(data, TokenDatasetOptions{.context = kContext}), kTokenBatch,
      [](const Batch& batch) { return batch.target.size(0); });
}

class Tokens : public torch::data::Dataset<Tokens> {
 public:
  explicit Tokens(const std::string& data)
      : file_(std::make_shared<MappedFile>(MappedFile::open(data).value())) {}
  torch::data::Example<> get(std::size_t index) override {
    const std::int64_t first = static_cast<std::int64_t>(index) * kContext;
    const auto tokens = [&](std::int64_t from) {
      return at::from_blob(const_cast<std::uint16_t*>(begin() + from), {kContext}, at::kUInt16)  // NOLINT
          .to(at::kLong);
    };
    return {tokens(first), tokens(first + 1)};
  }
  std::optional<std::size_t> size() const override {
    return (file_->bytes().size() / sizeof(std::uint16_t) - 1) / kContext;
  }
  const std::uint16_t* begin() const { return reinterpret_cast<const std::uint16_t*>(file_->bytes().data()); }

 private:
  std::shared_ptr<MappedFile> file_;
};

Open torch_tokens(const std::string& data) {
  return [file = Tokens(data)](int workers) -> NextBatch {
    auto stacked = Tokens(file).map(torch::data::transforms::Stack<>());
    std::shared_ptr loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
        std::move(stacked),
        torch::data::DataLoaderOptions(kTokenBatch).workers(static_cast<std::size_t>(workers)));
    return torch_loader(loader, [](const torch::data::Example<>& batch) { return batch.target.size(0); });
  };
}

// The floor, without a loader: one thread, the memory of one batch, the same loops.
Open plain_form(const std::string& data) {
  return [file = Tokens(data)](int) -> NextBatch {
    const at::Tensor order = torch::randperm(static_cast<std::int64_t>(*file.size()));
    std::vector<std::int64_t> inputs(kTokenBatch * kContext), targets(kTokenBatch * kContext);
    return [=, place = std::int64_t{0}]() mutable {
      if (place + kTokenBatch > order.size(0)) place = 0;
      for (std::int64_t row = 0; row < kTokenBatch; ++row) {
        const std::uint16_t* from = file.begin() + order.data_ptr<std::int64_t>()[place + row] * kContext;
        widen_tokens(from, kContext, inputs.data() + row * kContext);
        widen_tokens(from + 1, kContext, targets.data() + row * kContext);
      }
      place += kTokenBatch;
      return kTokenBatch;
    };
  };
}

}  // namespace

Forms tokens() {
  return {{"muster", muster_tokens}, {"torch_data", torch_tokens}, {"plain", plain_form}};
}

}  // namespace muster::bench
