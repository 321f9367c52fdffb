#include "runtime/parallel/attendance.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fmt/core.h>
#include <string_view>

namespace muster {
namespace {

// What Gloo says when another rank is gone, is late, or is in another collective.
constexpr std::array<std::string_view, 5> kAboutPeers{"Connection closed by peer", "Connection reset by peer",
                                                      "Timed out waiting", "Broken pipe",
                                                      "collective mismatch"};

constexpr std::string_view kAdvice =
    "; unequal numbers of batches need DistributedDataParallel::join, or a sampler that makes them equal";

}  // namespace

Attendance::Attendance(const c10::intrusive_ptr<c10d::Store>& store, int rank) : store_(store), rank_(rank) {
  // All ranks make their models in the same order.
  static std::atomic<int> models = 0;
  key_ = fmt::format("ended/{}", models++);
}

void Attendance::ends() {
  const auto store = store_.lock();
  if (store == nullptr || count_ == 0) return;
  try {
    // Of many the first is enough: it has taken part in the fewest.
    if (store->add(key_, 1) != 1) return;
    const std::string place = fmt::format("{} {}", rank_, count_.load());
    store->set(key_ + "/first", std::vector<std::uint8_t>(place.begin(), place.end()));
  } catch (const std::exception&) {
    // Whoever served the store has left before: nobody is there to be told.
  }
}

std::string Attendance::explain(const std::string& text) const {
  const bool about_peers = std::ranges::any_of(
      kAboutPeers, [&](std::string_view words) { return text.find(words) != std::string::npos; });
  const auto store = store_.lock();
  if (!about_peers || store == nullptr || count_ == 0) return {};
  const std::string here = fmt::format("this rank has begun {} reductions of gradients", count_.load());
  try {
    if (!store->check({key_ + "/first"})) return fmt::format(" ({}; no other has ended)", here);
    const auto place = store->get(key_ + "/first");
    int rank = 0;
    long count = 0;
    if (std::sscanf(std::string(place.begin(), place.end()).c_str(), "%d %ld", &rank, &count) != 2 ||
        count >= count_)
      return {};
    return fmt::format(" ({}; rank {} has ended after {}{})", here, rank, count, kAdvice);
  } catch (const std::exception&) {
    return fmt::format(" ({}; the rank that serves the store has ended or died{})", here, kAdvice);
  }
}

}  // namespace muster
