#include <memory>
#include <muster/data/parquet_dataset.h>
#include <torch/torch.h>

#include "bench/formats/run.h"

namespace muster::bench {

namespace {

Open muster_rows(const std::string& folder) {
  const auto tensor = [](const ParquetRow& row) { return row.tensor("input_ids"); };
  const auto dataset =
      std::make_shared<const ParquetDataset<decltype(tensor)>>(std::vector{folder + "/*.parquet"}, tensor);
  return [dataset](int workers) {
    return muster_stream<at::Tensor>(dataset, 64, workers,
                                     [](const at::Tensor& batch) { return batch.size(0); });
  };
}

}  // namespace

Forms parquet() {
  return {{"muster", muster_rows}};
}

}  // namespace muster::bench
