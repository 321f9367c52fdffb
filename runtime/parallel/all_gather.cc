#include "runtime/parallel/all_gather.h"

#include <ATen/ATen.h>

namespace muster {

std::vector<std::string> all_gathered(const Job& job, std::string bytes, std::size_t length) {
  bytes.resize(length);
  const auto size = static_cast<std::int64_t>(length);
  std::vector<at::Tensor> mine{at::from_blob(bytes.data(), {size}, at::kByte)};
  std::vector<std::vector<at::Tensor>> all(1);
  for (int rank = 0; rank < job.world_size(); ++rank) all[0].push_back(at::empty({size}, at::kByte));
  job.process_group()->allgather(all, mine)->wait();
  std::vector<std::string> texts;
  for (const auto& each : all[0]) texts.emplace_back(static_cast<const char*>(each.const_data_ptr()), length);
  return texts;
}

}  // namespace muster
