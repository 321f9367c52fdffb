#include "runtime/checkpoint/meeting.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "common/base/log.h"

namespace muster {

namespace {

constexpr std::int64_t kStepsAhead = 2;

}  // namespace

Meeting::Meeting(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size)
    : rank_(rank), world_size_(world_size) {
  // Each rank counts the meetings that it has constructed, so a meeting has the same number on all ranks.
  const std::int64_t instance = store->add(fmt::format("checkpoint/instances/{}", rank), 1);
  store_ = c10::make_intrusive<c10d::PrefixStore>(fmt::format("checkpoint/{}", instance), store->clone());
}

void Meeting::open(const std::string& name) {
  name_ = name;
  round_ = 0;
  has_given_ = false;
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
  has_given_ = true;
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

Expected<std::vector<std::string>> Meeting::get_all(const std::vector<std::string>& keys,
                                                    const std::vector<int>& ranks,
                                                    std::chrono::milliseconds timeout) {
  std::vector<std::string> words;
  try {
    store_->wait(keys, std::max(timeout, std::chrono::milliseconds(1)));
    for (const auto& word : store_->multiGet(keys)) words.emplace_back(word.begin(), word.end());
    return words;
  } catch (const c10::DistStoreError&) {
    std::vector<int> missing;
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (!store_->check({keys[i]})) missing.push_back(ranks[i]);
    return failure(ErrorCode::kTimedOut, "ranks {} did not answer within {} ms", fmt::join(missing, ", "),
                   timeout.count());
  } catch (const c10::Error& error) {
    return failure(ErrorCode::kUnavailable, "{}", error.what_without_backtrace());
  }
}

Expected<std::vector<std::string>> Meeting::collect(std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size_; ++rank) {
    keys.push_back(word_key(rank));
    ranks.push_back(rank);
  }
  auto words = get_all(keys, ranks, timeout);
  if (words) all_answered_ = true;
  return words;
}

Expected<std::vector<std::string>> Meeting::exchange(const std::string& name, const std::vector<int>& ranks,
                                                     const std::string& word,
                                                     std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (const int rank : ranks) {
    keys.push_back(fmt::format("{}/{}/{}/{}", name_, round_, name, rank));
    if (rank == rank_) exchanged_.push_back(keys.back());
  }
  store_->set(exchanged_.back(), word);
  return get_all(keys, ranks, timeout);
}

void Meeting::forget_exchanged() {
  for (const std::string& key : std::exchange(exchanged_, {})) store_->deleteKey(key);
}

// Deletes the keys that this rank has written and that rank 0 has read. Each rank deletes its own, so that
// rank 0 need not delete all of them. If rank 0 has exited, the store may no longer exist.
void Meeting::forget_answered() {
  try {
    if (has_given_) store_->deleteKey(word_key(rank_));
    forget_exchanged();
  } catch (const c10::Error& error) {
    log::debug("the store is gone: {}", error.what_without_backtrace());
  }
}

void Meeting::announce(const std::string& word) {
  store_->set(announcement_key(), word);
  // All ranks have answered in this round. So none of them still waits for an earlier announcement, and these
  // announcements can be deleted.
  if (std::exchange(all_answered_, false)) {
    for (const std::string& key : std::exchange(announced_, {})) store_->deleteKey(key);
    store_->deleteKey(word_key(rank_));
    forget_exchanged();
  }
  announced_.push_back(announcement_key());
  ++round_;
}

Expected<std::string> Meeting::listen(std::chrono::milliseconds timeout) {
  auto word = get(announcement_key(), timeout);
  if (word) forget_answered();
  has_given_ = false;
  ++round_;
  return word;
}

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
