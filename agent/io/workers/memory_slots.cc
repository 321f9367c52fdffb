#include "agent/io/workers/memory_slots.h"

#include <cerrno>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

namespace muster::agent {

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// Nobody to whom it is passed can change its size, so that who has mapped it never meets a hole.
Expected<UniqueFd> make_slot(std::uint64_t bytes) {
  UniqueFd fd(memfd_create("muster-checkpoint", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_failure("cannot make a file in memory", errno);
  return fd;
}

}  // namespace

void MemorySlots::keep(Rank first, std::int32_t count) {
  first_ = first;
  count_ = count;
  std::erase_if(slots_, [this](const auto& each) { return !is_here(each.first); });
}

bool MemorySlots::is_here(Rank rank) const {
  return rank >= first_ && rank.value() - first_.value() < count_;
}

Status MemorySlots::give(Rank rank, std::uint64_t slot_bytes) {
  if (limit_bytes_ == 0) return failure(ErrorCode::kUnavailable, "the job was started without --memory-tier");
  if (!is_here(rank)) return failure(ErrorCode::kUnavailable, "rank {} is not of this node", rank);
  const auto known = slots_.find(rank);
  if (slot_bytes == 0 || (known != slots_.end() && known->second.slot_bytes == slot_bytes)) return {};
  if (known == slots_.end() && slots_.size() == kMostRanks)
    return failure(ErrorCode::kUnavailable, "no more than {} ranks of a node have some", kMostRanks);
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
  return {};
}

MemorySlots::Answer MemorySlots::answer(Rank rank, std::uint64_t slot_bytes) {
  nlohmann::json said{{"v", 1}, {"type", "memory_slots"}};
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

std::vector<UniqueFd> MemorySlots::copies() const {
  std::vector<UniqueFd> found;
  for (const auto& [each, slots] : slots_)
    for (const UniqueFd& fd : slots.fds) found.emplace_back(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  return found;
}

}  // namespace muster::agent
