#include "runtime/comm/nccl/failure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "runtime/comm/formation.h"

namespace muster {

struct NcclGroup::Known {
  std::mutex mutex;
  std::string failure;
  TimePoint looked_at{};
  bool store_is_gone = false;
  std::atomic<bool> told = false;  // nccl_failure_of() has reported it
};

namespace {

constexpr const char* kGivenUp = "given_up";

struct Watched {
  std::mutex mutex;
  std::vector<NcclGroup> groups;
  std::string noted;
};
// Becomes true when a collective of any group has timed out. Before that, this process does not look into any
// store for failures of other ranks.
std::atomic<bool> time_was_over = false;
constexpr std::chrono::seconds kBetweenLooks{1};

Watched& watched() {
  static auto* one = new Watched;
  return *one;
}

std::vector<NcclGroup> living_groups() {
  const std::lock_guard lock(watched().mutex);
  std::erase_if(watched().groups, [](const NcclGroup& each) { return each.backend.expired(); });
  return watched().groups;
}

std::optional<NcclGroup> find_watched(const c10::intrusive_ptr<c10d::Backend>& backend) {
  for (NcclGroup& each : living_groups())
    if (each.backend.lock() == backend) return std::move(each);
  return std::nullopt;
}

std::string entered_key(std::size_t place) {
  return fmt::format("entered/{}", place);
}

std::string who_is_absent(const NcclGroup& group) {
  std::vector<std::optional<std::int64_t>> entered(group.ranks.size());
  try {
    const auto store = connect_again(group.store);
    for (std::size_t place = 0; place < entered.size(); ++place)
      if (store->check({entered_key(place)}))
        entered[place] = std::atoll(store->get_to_str(entered_key(place)).c_str());
  } catch (const std::exception&) {
    return {};  // the process that serves the store is gone
  }
  return describe_absent(group, entered);
}

// Writes `mine` to the store, but only if it is not empty and no other member has written a text. Returns the
// text that is then in the store. Returns "" if there is none.
std::string agree_on_failure(const NcclGroup& group, const std::string& mine) {
  const auto store = connect_again(group.store);
  if (!mine.empty()) return store->compareSet(kGivenUp, std::string(), mine);
  return store->check({kGivenUp}) ? store->get_to_str(kGivenUp) : "";
}

std::string failure_of(const NcclGroup& group) {
  const auto backend = group.backend.lock();
  if (!backend) return {};
  NcclGroup::Known& known = *group.known;
  const std::lock_guard lock(known.mutex);
  if (!known.failure.empty()) return known.failure;
  const c10d::ErrorType error = backend->getError();
  std::string text;
  if (error == c10d::ErrorType::SUCCESS) {
    const TimePoint now = Clock::now();
    if (!time_was_over || known.store_is_gone || now - known.looked_at < kBetweenLooks) return {};
    known.looked_at = now;
  } else {
    if (group.has_collectives) text = who_is_absent(group);
    if (text.empty())
      text = fmt::format("a {} {}", group.has_collectives ? "collective" : "message",
                         error == c10d::ErrorType::TIMEOUT ? "timed out" : "failed");
  }
  try {
    text = agree_on_failure(group, text);
  } catch (const std::exception&) {
    known.store_is_gone = true;
  }
  if (!text.empty()) known.failure = fmt::format("NCCL has given up group '{}': {}", group.name, text);
  return known.failure;
}

}  // namespace

void watch_nccl(NcclGroup group) {
  group.known = std::make_shared<NcclGroup::Known>();
  const std::lock_guard lock(watched().mutex);
  watched().groups.push_back(std::move(group));
}

void watch_messages(const c10::intrusive_ptr<c10d::Backend>& messages,
                    const c10::intrusive_ptr<c10d::Backend>& collectives) {
  std::optional<NcclGroup> group = find_watched(collectives);
  CHECK(group.has_value(), "collectives of a group that is not watched");
  group->backend = c10::weak_intrusive_ptr<c10d::Backend>(messages);
  group->has_collectives = false;
  const std::lock_guard lock(watched().mutex);
  watched().groups.push_back(*std::move(group));
}

void tell_entered() {
  time_was_over = true;
  for (const NcclGroup& each : living_groups()) {
    const auto backend = each.backend.lock();
    if (!backend || !each.has_collectives) continue;
    try {
      connect_again(each.store)
          ->set(entered_key(static_cast<std::size_t>(each.place)),
                fmt::format("{}", backend->getSequenceNumberForGroup()));
    } catch (const std::exception&) {
      return;  // no server for the store: the others will report that this rank has not answered
    }
  }
}

std::string describe_absent(const NcclGroup& group, const std::vector<std::optional<std::int64_t>>& entered) {
  const auto most = std::ranges::max(entered);
  if (!most) return {};
  std::vector<int> absent;
  std::vector<int> silent;
  for (std::size_t place = 0; place < entered.size(); ++place) {
    if (!entered[place])
      silent.push_back(group.ranks[place]);
    else if (*entered[place] < *most)
      absent.push_back(group.ranks[place]);
  }
  const auto ranks = [](const std::vector<int>& those) {
    return fmt::format("rank{} {}", those.size() == 1 ? "" : "s", fmt::join(those, ", "));
  };
  std::string text;
  if (!absent.empty())
    text = fmt::format("{} {} not entered its collective {}", ranks(absent),
                       absent.size() == 1 ? "has" : "have", *most);
  if (!silent.empty())
    text += fmt::format("{}{} {} not answered", text.empty() ? "" : ", and ", ranks(silent),
                        silent.size() == 1 ? "has" : "have");
  return text;
}

std::string nccl_failure_of(const c10::intrusive_ptr<c10d::Backend>& backend) {
  // This code runs before each collective. So it uses the store only if something is wrong.
  if (backend == nullptr || (backend->getError() == c10d::ErrorType::SUCCESS && !time_was_over)) return {};
  const std::optional<NcclGroup> found = find_watched(backend);
  if (!found) return {};
  std::string failure = failure_of(*found);
  if (!failure.empty()) found->known->told = true;
  return failure;
}

void note_nccl_failure_of(const c10::intrusive_ptr<c10d::Backend>& backend) {
  if (backend == nullptr || backend->getError() == c10d::ErrorType::SUCCESS) return;
  const std::optional<NcclGroup> found = find_watched(backend);
  if (!found || found->known->told) return;
  std::string failure = failure_of(*found);
  const std::lock_guard lock(watched().mutex);
  if (watched().noted.empty()) watched().noted = std::move(failure);
}

std::string noted_nccl_failure() {
  const std::lock_guard lock(watched().mutex);
  return watched().noted;
}

std::string any_nccl_failure() {
  for (const NcclGroup& each : living_groups())
    if (std::string failure = failure_of(each); !failure.empty()) return failure;
  return {};
}

Status check_groups() {
  if (const std::string why = any_nccl_failure(); !why.empty())
    return failure(ErrorCode::kUnavailable, "{}", why);
  return {};
}

}  // namespace muster
