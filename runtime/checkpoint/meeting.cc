#include "runtime/checkpoint/meeting.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "common/base/clock.h"

namespace muster {

namespace {

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

Meeting::Meeting(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size)
    : rank_(rank), world_size_(world_size) {
  // Each rank counts for itself how many it has made: the same number on all.
  const std::int64_t instance = store->add(fmt::format("checkpoint/instances/{}", rank), 1);
  store_ = c10::make_intrusive<c10d::PrefixStore>(fmt::format("checkpoint/{}", instance), store->clone());
}

std::string Meeting::word_key(int rank) const {
  return fmt::format("{}/rank/{}", number_, rank);
}
std::string Meeting::announcement_key(std::int64_t number) const {
  return fmt::format("{}/all", number);
}

void Meeting::give(const std::string& word) {
  store_->set(word_key(rank_), bytes_of(word));
}

Expected<std::string> Meeting::get(const std::string& key, std::chrono::milliseconds timeout) {
  try {
    store_->wait({key}, timeout);
    const auto bytes = store_->get(key);
    return std::string(bytes.begin(), bytes.end());
  } catch (const std::exception& error) {
    return failure(ErrorCode::kTimedOut, "{}", error.what());
  }
}

Expected<std::vector<std::string>> Meeting::collect(std::chrono::milliseconds timeout) {
  const TimePoint deadline = Clock::now() + timeout;
  std::vector<std::string> words;
  std::vector<int> missing;
  for (int rank = 0; rank < world_size_; ++rank) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    auto word = get(word_key(rank), std::max(left, std::chrono::milliseconds(1)));
    if (!word) {
      missing.push_back(rank);
      continue;
    }
    words.push_back(*std::move(word));
    store_->deleteKey(word_key(rank));
  }
  all_answered_ = missing.empty();
  if (all_answered_) return words;
  return failure(ErrorCode::kTimedOut, "ranks {} did not answer within {} ms", fmt::join(missing, ", "),
                 timeout.count());
}

void Meeting::announce(const std::string& word) {
  store_->set(announcement_key(number_), bytes_of(word));
  // Who answered in this meeting has heard the announcement of the one before.
  if (std::exchange(all_answered_, false) && number_ >= 1) store_->deleteKey(announcement_key(number_ - 1));
  ++number_;
}

Expected<std::string> Meeting::listen(std::chrono::milliseconds timeout) {
  auto word = get(announcement_key(number_), timeout);
  ++number_;
  return word;
}

}  // namespace muster
