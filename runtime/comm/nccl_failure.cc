#include "runtime/comm/nccl_failure.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <utility>

#include "runtime/comm/formation.h"

namespace muster {
namespace {

struct Watched {
  std::mutex mutex;
  std::vector<NcclGroup> groups;
};
Watched& watched() {
  static auto* one = new Watched;
  return *one;
}

std::vector<NcclGroup> living_groups() {
  const std::lock_guard lock(watched().mutex);
  std::erase_if(watched().groups, [](const NcclGroup& each) { return each.backend.expired(); });
  return watched().groups;
}

bool is_watched(const c10::intrusive_ptr<c10d::Backend>& backend) {
  const std::lock_guard lock(watched().mutex);
  return std::ranges::any_of(watched().groups,
                             [&](const NcclGroup& each) { return each.backend.lock() == backend; });
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
    return {};  // whoever serves the store is gone
  }
  return describe_absent(group, entered);
}

std::string failure_of(const NcclGroup& group) {
  const auto backend = group.backend.lock();
  if (!backend) return {};
  const auto how = [&]() -> const char* {
    switch (backend->getError()) {
      case c10d::ErrorType::SUCCESS: return nullptr;
      case c10d::ErrorType::TIMEOUT: return "a collective has not ended in time";
      default: return "a collective has failed";
    }
  }();
  if (how == nullptr) return {};
  const std::string absent = who_is_absent(group);
  return fmt::format("NCCL has given the group '{}' up: {}", group.name, absent.empty() ? how : absent);
}

}  // namespace

void watch_nccl(NcclGroup group) {
  const std::lock_guard lock(watched().mutex);
  watched().groups.push_back(std::move(group));
}

void tell_entered() {
  for (const NcclGroup& each : living_groups()) {
    const auto backend = each.backend.lock();
    if (!backend) continue;
    try {
      connect_again(each.store)
          ->set(entered_key(static_cast<std::size_t>(each.place)),
                fmt::format("{}", backend->getSequenceNumberForGroup()));
    } catch (const std::exception&) {
      return;  // whoever serves the store is gone: the others will say of this rank that it says nothing
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
    text = fmt::format("{} {} not come to its collective {}", ranks(absent),
                       absent.size() == 1 ? "has" : "have", *most);
  if (!silent.empty())
    text += fmt::format("{}{} {} nothing", text.empty() ? "" : ", and ", ranks(silent),
                        silent.size() == 1 ? "says" : "say");
  return text;
}

std::string nccl_failure_of(c10d::ProcessGroup& group) {
  if (!std::ranges::any_of(group.getDeviceTypes(), &c10::Device::is_cuda)) return {};
  const auto backend = group.getBackend(c10::kCUDA);
  // Asked before each collective: nothing is copied where all is well.
  if (!is_watched(backend) || backend->getError() == c10d::ErrorType::SUCCESS) return {};
  for (const NcclGroup& each : living_groups())
    if (each.backend.lock() == backend) return failure_of(each);
  return {};
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
