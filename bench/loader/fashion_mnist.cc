#include <muster/data/idx_dataset.h>
#include <torch/torch.h>

#include "bench/loader/run.h"

namespace muster::bench {

namespace {

constexpr std::int64_t kBatch = 64;
constexpr float kMean = 0.2860F, kStddev = 0.3530F;

std::string images_in(const std::string& data) {
  return data + "/train-images-idx3-ubyte.gz";
}
std::string labels_in(const std::string& data) {
  return data + "/train-labels-idx1-ubyte.gz";
}

Open muster_form(const std::string& data) {
  return muster_loader<Example>(
      std::make_shared<IdxDataset>(images_in(data), labels_in(data),
                                   IdxNormalization{.mean = kMean, .stddev = kStddev}),
      kBatch, [](const Batch& batch) { return batch.target.size(0); });
}

class Images : public torch::data::Dataset<Images> {
 public:
  explicit Images(const std::string& data)
      : images_(read_idx(images_in(data))), labels_(read_idx(labels_in(data)).to(at::kLong)) {}
  torch::data::Example<> get(std::size_t index) override {
    const auto place = static_cast<std::int64_t>(index);
    return {images_[place].unsqueeze(0).to(at::kFloat).div_(255).sub_(kMean).div_(kStddev), labels_[place]};
  }
  std::optional<std::size_t> size() const override { return static_cast<std::size_t>(labels_.size(0)); }

 private:
  at::Tensor images_, labels_;
};

Open torch_form(const std::string& data) {
  const auto images = std::make_shared<Images>(data);
  return [images](int workers) -> NextBatch {
    auto stacked = Images(*images).map(torch::data::transforms::Stack<>());
    std::shared_ptr loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
        std::move(stacked),
        torch::data::DataLoaderOptions(kBatch).workers(static_cast<std::size_t>(workers)));
    return torch_loader(loader, [](const torch::data::Example<>& batch) { return batch.target.size(0); });
  };
}

}  // namespace

Forms fashion_mnist() {
  return {{"muster", muster_form}, {"torch_data", torch_form}};
}

}  // namespace muster::bench
