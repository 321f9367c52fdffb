#include "agent/io/workers/memory_slots.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "common/checkpoint/memory_slot.h"

namespace muster::agent {

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// Makes a slot whose size is sealed. If another process could make the slot smaller, a process that has
// mapped it would crash.
Expected<UniqueFd> make_slot(std::uint64_t bytes) {
  UniqueFd fd(memfd_create("muster-checkpoint", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_failure("cannot make a file in memory", errno);
  return fd;
}

UniqueFd another(const UniqueFd& fd) {
  return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
}

std::optional<Copy> complete(Rank rank, const UniqueFd& fd) {
  const auto header = read_slot_header(fd.get());
  if (!header || Rank(header->rank) != rank) return std::nullopt;
  return Copy{rank, header->id(), slot_bytes(fd.get())};
}

nlohmann::json datagram() {
  return {{"v", 1}, {"type", "memory_slots"}};
}

}  // namespace

void MemorySlots::set_limit(std::uint64_t limit_bytes) {
  const std::lock_guard lock(mutex_);
  limit_bytes_ = limit_bytes;
}

void MemorySlots::keep(Rank first, std::int32_t count) {
  const std::lock_guard lock(mutex_);
  own_ = {first, count};
  for (auto& [rank, slots] : slots_) {
    if (own_.has(rank)) continue;
    for (UniqueFd& fd : slots.fds) {
      const auto copy = complete(rank, fd);
      if (!copy) continue;
      keeping_.add_former_slot(*copy);
      copies_[*copy] = std::move(fd);
    }
  }
  std::erase_if(slots_, [this](const auto& each) { return !own_.has(each.first); });
  std::vector<std::pair<Copy, UniqueFd>> ours;
  for (auto& [copy, fd] : copies_)
    if (own_.has(copy.rank)) ours.emplace_back(copy, std::move(fd));
  for (const auto& [copy, fd] : ours) {
    keeping_.remove(copy);
    copies_.erase(copy);
  }
  std::ranges::sort(
      ours, [](const auto& one, const auto& other) { return is_newer(one.first.id, other.first.id); });
  for (auto& [copy, fd] : ours) become_slot(copy, std::move(fd));
  drop(keeping_.shrink(room_for_copies()));
}

// Uses the copy as a slot of its rank. The copy takes the place of a slot that is not complete. Returns false
// if both slots of the rank are complete. Also returns false if one of them is complete and has another size.
// If a rank has several copies, pass the newest one first.
bool MemorySlots::become_slot(const Copy& copy, UniqueFd fd) {
  const auto known = slots_.find(copy.rank);
  if (known == slots_.end() || known->second.slot_bytes != copy.slot_bytes) {
    const bool has_one =
        known != slots_.end() && std::ranges::any_of(known->second.fds, [&](const auto& each) {
          return complete(copy.rank, each).has_value();
        });
    if (has_one || !give(copy.rank, copy.slot_bytes)) return false;
  }
  for (UniqueFd& each : slots_.at(copy.rank).fds) {
    if (complete(copy.rank, each)) continue;
    each = std::move(fd);
    return true;
  }
  return false;
}

void MemorySlots::drop(const std::vector<Copy>& which) {
  for (const Copy& each : which) copies_.erase(each);
}

std::uint64_t MemorySlots::room_for_copies() const {
  std::uint64_t used = 0;
  for (const auto& [rank, slots] : slots_) used += kEach * slots.slot_bytes;
  return limit_bytes_ - std::min(used, limit_bytes_);
}

Status MemorySlots::give(Rank rank, std::uint64_t slot_bytes) {
  if (limit_bytes_ == 0) return failure(ErrorCode::kUnavailable, "the job was started without --memory-tier");
  if (!own_.has(rank)) return failure(ErrorCode::kUnavailable, "rank {} is not on this node", rank);
  const auto known = slots_.find(rank);
  if (slot_bytes == 0 || (known != slots_.end() && known->second.slot_bytes == slot_bytes)) return {};
  if (known == slots_.end() && slots_.size() == kMostRanks)
    return failure(ErrorCode::kUnavailable, "at most {} ranks of a node can have such memory", kMostRanks);
  std::uint64_t others = 0;
  for (const auto& [each, slots] : slots_)
    if (each != rank) others += kEach * slots.slot_bytes;
  if (slot_bytes > limit_bytes_ / kEach || others > limit_bytes_ - kEach * slot_bytes)
    return failure(ErrorCode::kUnavailable,
                   "--memory-tier of {} MiB has no room for two of {} MiB beside the {} MiB of other ranks",
                   limit_bytes_ / kMiB, slot_bytes / kMiB, others / kMiB);
  Slots made{.fds = {}, .slot_bytes = slot_bytes};
  for (UniqueFd& fd : made.fds) {
    auto slot = make_slot(slot_bytes);
    if (!slot) return std::unexpected(slot.error());
    fd = *std::move(slot);
  }
  slots_[rank] = std::move(made);
  drop(keeping_.shrink(room_for_copies()));
  return {};
}

MemorySlots::Answer MemorySlots::later() {
  nlohmann::json said = datagram();
  said["later"] = true;
  return {.text = said.dump(), .fds = {}};
}

MemorySlots::Answer MemorySlots::answer(Rank rank, std::uint64_t slot_bytes) {
  const std::lock_guard lock(mutex_);
  nlohmann::json said = datagram();
  if (const Status given = give(rank, slot_bytes); !given) {
    said["refused"] = given.error().message();
    return {.text = said.dump(), .fds = {}};
  }
  Answer answer;
  said["ranks"] = nlohmann::json::array();
  for (const auto& [each, slots] : slots_) {
    for (const UniqueFd& fd : slots.fds) {
      said["ranks"].push_back(each.value());
      answer.fds.push_back(fd.get());
    }
  }
  answer.text = said.dump();
  return answer;
}

std::vector<UniqueFd> MemorySlots::own_slots() const {
  const std::lock_guard lock(mutex_);
  std::vector<UniqueFd> found;
  for (const auto& [each, slots] : slots_)
    for (const UniqueFd& fd : slots.fds) found.push_back(another(fd));
  return found;
}

std::vector<Copy> MemorySlots::held() const {
  const std::lock_guard lock(mutex_);
  std::vector<Copy> all(keeping_.copies().begin(), keeping_.copies().end());
  for (const auto& [rank, slots] : slots_)
    for (const UniqueFd& fd : slots.fds)
      if (const auto copy = complete(rank, fd)) all.push_back(*copy);
  return all;
}

UniqueFd MemorySlots::open(const Copy& copy) const {
  const std::lock_guard lock(mutex_);
  if (const auto kept = copies_.find(copy); kept != copies_.end()) return another(kept->second);
  const auto own = slots_.find(copy.rank);
  if (own == slots_.end()) return {};
  for (const UniqueFd& fd : own->second.fds)
    if (complete(copy.rank, fd) == copy) return another(fd);
  return {};
}

void MemorySlots::begin_copying(Attempt attempt, RankRange kept) {
  const std::lock_guard lock(mutex_);
  std::set<Rank> lacking;
  for (std::int32_t i = 0; i < own_.count; ++i) lacking.insert(Rank(own_.first.value() + i));
  for (const auto& [rank, slots] : slots_)
    for (const UniqueFd& fd : slots.fds)
      if (complete(rank, fd)) lacking.erase(rank);
  keeping_.begin(attempt, std::move(lacking), kept);
}

void MemorySlots::stop_fetching(Attempt attempt) {
  const std::lock_guard lock(mutex_);
  keeping_.stop_fetching(attempt);
}

CopyKeeping::Use MemorySlots::use_of(const Copy& offered, bool is_current) const {
  const std::lock_guard lock(mutex_);
  if (offered.slot_bytes <= kSlotPage || offered.slot_bytes > limit_bytes_) return CopyKeeping::Use::kNone;
  return keeping_.use_of(offered, is_current, room_for_copies());
}

Expected<UniqueFd> MemorySlots::make_room(const Copy& offered) {
  const std::lock_guard lock(mutex_);
  if (!own_.has(offered.rank)) drop(keeping_.make_way(offered));
  return make_slot(offered.slot_bytes);
}

bool MemorySlots::take(const Copy& copy, UniqueFd fd) {
  const std::lock_guard lock(mutex_);
  switch (keeping_.use_of(copy, true, room_for_copies())) {
    case CopyKeeping::Use::kOwn: return become_slot(copy, std::move(fd));
    case CopyKeeping::Use::kKeep:
      copies_[copy] = std::move(fd);
      keeping_.add_fetched(copy);
      return true;
    case CopyKeeping::Use::kNone:
    case CopyKeeping::Use::kNoRoom: return false;
  }
  return false;
}

void MemorySlots::forget_others() {
  const std::lock_guard lock(mutex_);
  drop(keeping_.forget_others());
}

}  // namespace muster::agent
