// What loader_run measures: cases, each with the forms of reading it that are compared.
//
// A case has a file of its own here, with a function that gives its forms, and one named alike for Python;
// run.cc lists the first kind, main.cc says what is compared with what.
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

// How many bytes are loaded ahead while training takes nothing, for several limits.
nlohmann::json bound();

// A muster::DataLoader that shuffles; `count` tells how many samples a batch has.
template <class Sample, class Count>
Open muster_loader(std::shared_ptr<const Dataset<Sample>> dataset, std::int64_t batch_size,
                   const Count& count) {
  return [=](int workers) -> NextBatch {
    const auto loader = std::make_shared<DataLoader<Sample>>(
        *dataset, DataLoaderOptions{.batch_size = batch_size, .shuffle = true, .num_workers = workers}, 0, 1);
    return batches_of(dataset, loader, count);
  };
}

// The same for a loader of torch::data.
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
