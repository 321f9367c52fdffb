// The cases that formats_run measures. Each case has forms (ways of reading it) and data.
//
// archives.cc, parquet.cc and tokens.cc have the forms in C++; archives.py and parquet.py have those in
// Python. run.cc lists the cases; main.cc lists the forms that it compares.
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

// Makes the case's data in an empty folder; the data is always the same.
void make_data(const std::string& name, const std::string& folder);

// The sizes and paths of make_data()'s files.
constexpr std::int64_t kArchives = 8, kSamples = 512;  // the case samples: archives, and samples in each
constexpr std::int64_t kMembers = 256;                 // the case members: members of 1 MiB in one archive
std::vector<std::string> archives_in(const std::string& folder);
// The path of the file; for Megatron's files, without extension.
std::string tokens_in(const std::string& folder);

// A muster::DataLoader over a stream; `count` returns the number of samples in a batch.
template <class Sample, class Count>
NextBatch muster_stream(std::shared_ptr<const IterableDataset<Sample>> dataset, std::int64_t batch_size,
                        int workers, const Count& count) {
  const auto loader = std::make_shared<DataLoader<Sample>>(
      *dataset, DataLoaderOptions{.batch_size = batch_size, .num_workers = workers}, 0, 1);
  return batches_of(dataset, loader, count);
}

}  // namespace muster::bench
