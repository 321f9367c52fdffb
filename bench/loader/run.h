// The cases that loader_run measures, each with forms: the ways of reading it.
//
// Each case has a C++ file with a function that returns its forms, and a Python file of the same name. run.cc
// lists the C++ cases; main.cc lists the forms that it compares.
#pragma once

#include <cstdint>
#include <memory>
#include <muster/data/data_loader.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/loading.h"

namespace muster::bench {

Forms fashion_mnist();
Forms images();
Forms photos();
Forms tokens();

// The bytes loaded ahead while training uses no batch, for several limits.
nlohmann::json bound();

// A muster::DataLoader that shuffles; `count` returns the number of samples in a batch.
template <class Sample, class Count>
Open muster_loader(std::shared_ptr<const Dataset<Sample>> dataset, std::int64_t batch_size,
                   const Count& count) {
  return [=](int workers) -> NextBatch {
    const auto loader = std::make_shared<DataLoader<Sample>>(
        *dataset, DataLoaderOptions{.batch_size = batch_size, .shuffle = true, .num_workers = workers}, 0, 1);
    return batches_of(dataset, loader, count);
  };
}

// The same with a loader of torch::data.
template <class Loader, class Count>
NextBatch torch_loader(std::shared_ptr<Loader> loader, const Count& count) {
  using Place = decltype(loader->begin());
  const auto place = std::make_shared<std::unique_ptr<Place>>();
  return [loader, place, count] {
    if (*place) ++**place;
    if (!*place || **place == loader->end()) *place = std::make_unique<Place>(loader->begin());
    return count(***place);
  };
}

}  // namespace muster::bench
