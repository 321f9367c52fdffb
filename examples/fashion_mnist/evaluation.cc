#include "examples/fashion_mnist/evaluation.h"

#include <vector>

namespace {

constexpr std::int64_t kBatchSize = 500;

}  // namespace

double test_accuracy(NetImpl& net, const muster::Dataset<>& images, const muster::Job& job) {
  const torch::NoGradGuard no_grad;
  net.eval();
  muster::Accuracy accuracy(job);
  std::vector<std::int64_t> indices;
  for (std::int64_t index = job.rank(); index < images.size(); index += job.world_size()) {
    indices.push_back(index);
    const bool last = index + job.world_size() >= images.size();
    if (std::ssize(indices) < kBatchSize && !last) continue;
    const muster::Batch batch = images.get_batch(indices);
    accuracy.update(net.forward(batch.data.to(job.device())), batch.target);
    indices.clear();
  }
  net.train();
  return accuracy.compute();
}
