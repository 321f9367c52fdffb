#include "runtime/checkpoint/stop_agreement.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

namespace muster {

namespace {

constexpr std::int64_t kStepsAhead = 2;

}  // namespace

StopAgreement::StopAgreement(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size)
    : rank_(rank), world_size_(world_size) {
  const std::int64_t instance = store->add(fmt::format("stop/instances/{}", rank), 1);
  store_ = c10::make_intrusive<c10d::PrefixStore>(fmt::format("stop/{}", instance), store);
}

std::optional<std::int64_t> StopAgreement::ask(std::int64_t steps_done) {
  if (stop_) return stop_;
  if (!posted_) {
    store_->set(std::to_string(rank_), std::to_string(steps_done));
    posted_ = true;
  }
  std::vector<std::string> keys;
  for (int rank = 0; rank < world_size_; ++rank) keys.push_back(std::to_string(rank));
  if (!store_->check(keys)) return std::nullopt;
  std::int64_t highest = 0;
  for (const std::vector<std::uint8_t>& value : store_->multiGet(keys))
    highest = std::max<std::int64_t>(highest, std::stoll(std::string(value.begin(), value.end())));
  stop_ = highest + kStepsAhead;
  return stop_;
}

}  // namespace muster
