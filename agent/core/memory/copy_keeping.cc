#include "agent/core/memory/copy_keeping.h"

#include <algorithm>
#include <utility>

namespace muster::agent {

namespace {

std::uint64_t bytes_of(const std::set<Copy>& copies) {
  std::uint64_t bytes = 0;
  for (const Copy& each : copies) bytes += each.slot_bytes;
  return bytes;
}

}  // namespace

void CopyKeeping::begin(Attempt attempt, std::set<Rank> lacking, RankRange kept) {
  attempt_ = attempt;
  lacking_ = std::move(lacking);
  kept_ = kept;
  whole_.reset();
  for (const Copy& each : copies_)
    if (is_whole(each.id) && (!whole_ || is_newer(each.id, *whole_))) whole_ = each.id;
}

bool CopyKeeping::is_whole(CheckpointId id) const {
  return kept_.count > 0 && kept_.count == std::ranges::count_if(copies_, [&](const Copy& each) {
                              return kept_.has(each.rank) && each.id == id;
                            });
}

// Returns whether `copy` can be dropped when a copy of checkpoint `to` arrives. A new copy arrives only after
// its rank has saved. That shows that all ranks have restored their state, so nobody needs copies of ranks
// outside `kept_` any more. A copy of a rank in `kept_` can be dropped unless it belongs to `to` or to the
// last complete checkpoint, `whole_`.
bool CopyKeeping::gives_way(const Copy& copy, CheckpointId to) const {
  return !kept_.has(copy.rank) || (copy.id != to && copy.id != whole_);
}

CopyKeeping::Use CopyKeeping::use_of(const Copy& offered, bool is_current, std::uint64_t room_bytes) const {
  if (lacking_.contains(offered.rank)) return Use::kOwn;
  if (!is_current || !kept_.has(offered.rank) || offered.id.attempt > attempt_ || copies_.contains(offered))
    return Use::kNone;
  std::uint64_t staying = 0;
  for (const Copy& each : copies_)
    if (!gives_way(each, offered.id)) staying += each.slot_bytes;
  const bool fits = staying <= room_bytes && offered.slot_bytes <= room_bytes - staying;
  return fits ? Use::kKeep : Use::kNoRoom;
}

std::vector<Copy> CopyKeeping::make_way(const Copy& offered) {
  std::vector<Copy> gone;
  for (const Copy& each : copies_)
    if (gives_way(each, offered.id)) gone.push_back(each);
  return take_out(gone);
}

void CopyKeeping::add_fetched(const Copy& copy) {
  copies_.insert(copy);
  if (is_whole(copy.id)) whole_ = copy.id;
}

std::vector<Copy> CopyKeeping::shrink(std::uint64_t room_bytes) {
  std::vector<Copy> order(copies_.begin(), copies_.end());
  std::ranges::sort(order, [this](const Copy& one, const Copy& other) {
    const bool kept = kept_.has(one.rank);
    return kept != kept_.has(other.rank) ? !kept : is_newer(other.id, one.id);
  });
  std::vector<Copy> gone;
  std::uint64_t bytes = bytes_of(copies_);
  for (auto next = order.begin(); bytes > room_bytes; ++next) {
    bytes -= next->slot_bytes;
    gone.push_back(*next);
  }
  return take_out(gone);
}

std::vector<Copy> CopyKeeping::forget_others() {
  std::vector<Copy> gone;
  for (const Copy& each : copies_)
    if (!kept_.has(each.rank)) gone.push_back(each);
  return take_out(gone);
}

std::vector<Copy> CopyKeeping::take_out(const std::vector<Copy>& which) {
  for (const Copy& each : which) copies_.erase(each);
  return which;
}

}  // namespace muster::agent
