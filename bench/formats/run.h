// The cases that formats_run measures: the ways of reading each (its forms), and its data.
//
// archives.cc, parquet.cc and tokens.cc have the forms in C++, archives.py and parquet.py those in Python.
// run.cc lists the cases, and main.cc says which forms are compared.
#pragma once

#include <cstdint>
#include <memory>
#include <muster/data/data_loader.h>
#include <string>
#include <vector>

#include "bench/loading.h"

namespace muster::bench {

Forms jpegs();
Forms samples();
Forms members();
Forms npy();
Forms megatron();
Forms parquet();

// Makes the case's data in an empty folder, the same data each time.
void make_data(const std::string& name, const std::string& folder);

// What make_data() writes, and where.
constexpr std::int64_t kArchives = 8, kSamples = 512;  // of the case samples, in each archive
constexpr std::int64_t kMembers = 256;                 // of 1 MiB, in one archive
std::vector<std::string> archives_in(const std::string& folder);
std::string tokens_in(const std::string& folder);  // the file, or Megatron's without its end

// A muster::DataLoader over a stream; `count` tells how many samples a batch has.
template <class Sample, class Count>
NextBatch muster_stream(std::shared_ptr<const IterableDataset<Sample>> dataset, std::int64_t batch_size,
                        int workers, const Count& count) {
  const auto loader = std::make_shared<DataLoader<Sample>>(
      *dataset, DataLoaderOptions{.batch_size = batch_size, .num_workers = workers}, 0, 1);
  return batches_of(dataset, loader, count);
}

}  // namespace muster::bench
