#include "runtime/checkpoint/meeting.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "common/base/clock.h"

namespace muster {

Meeting::Meeting(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size)
    : rank_(rank), world_size_(world_size) {
  // Each rank counts for itself how many it has made: the same number on all.
  const std::int64_t instance = store->add(fmt::format("checkpoint/instances/{}", rank), 1);
  store_ = c10::make_intrusive<c10d::PrefixStore>(fmt::format("checkpoint/{}", instance), store->clone());
}

void Meeting::open(const std::string& name) {
  name_ = name;
  round_ = 0;
  all_answered_ = false;
}

std::string Meeting::word_key(int rank) const {
  return fmt::format("{}/{}/rank/{}", name_, round_, rank);
}
std::string Meeting::announcement_key() const {
  return fmt::format("{}/{}/all", name_, round_);
}

void Meeting::give(const std::string& word) {
  store_->set(word_key(rank_), word);
}

Expected<std::string> Meeting::get(const std::string& key, std::chrono::milliseconds timeout) {
  try {
    store_->wait({key}, timeout);
    return store_->get_to_str(key);
  } catch (const c10::DistStoreError& error) {
    return failure(ErrorCode::kTimedOut, "{}", error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return failure(ErrorCode::kUnavailable, "{}", error.what_without_backtrace());
  }
}

Expected<std::vector<std::string>> Meeting::collect(std::chrono::milliseconds timeout) {
  const TimePoint deadline = Clock::now() + timeout;
  std::vector<std::string> words;
  std::vector<int> missing;
  for (int rank = 0; rank < world_size_; ++rank) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    auto word = get(word_key(rank), std::max(left, std::chrono::milliseconds(1)));
    if (!word && word.error().code() != ErrorCode::kTimedOut) return std::unexpected(word.error());
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
  store_->set(announcement_key(), word);
  // Who answered in this round waits for nothing that was said before.
  if (std::exchange(all_answered_, false)) {
    for (const std::string& key : std::exchange(announced_, {})) store_->deleteKey(key);
  }
  announced_.push_back(announcement_key());
  ++round_;
}

Expected<std::string> Meeting::listen(std::chrono::milliseconds timeout) {
  auto word = get(announcement_key(), timeout);
  ++round_;
  return word;
}

}  // namespace muster
