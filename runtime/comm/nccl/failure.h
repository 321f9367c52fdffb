// Finds out why NCCL has given up groups of this process, and which ranks are missing.
//
// When a collective times out, each rank of the job writes to the store of each of its groups how many of the
// group's collectives it has entered. Ranks with smaller numbers than others are missing. NCCL then aborts
// its communicator, and the GPUs go on with arbitrary data in the tensors, so results must not be used. A
// rank that finds its group given up writes this to the group's store. After a timeout, the members that were
// not in that collective check the store at most once per second. If the group is given up, they refuse
// further calls. Safe from any thread; no function waits for other ranks.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "common/base/error.h"

namespace muster {

struct NcclGroup {
  c10::weak_intrusive_ptr<c10d::Backend> backend{c10::intrusive_ptr<c10d::Backend>()};
  c10::intrusive_ptr<c10d::Store> store;
  std::vector<int> ranks;  // the members' ranks in the job, by place
  int place = 0;           // this process's place
  std::string name;
  bool has_collectives = true;  // false: the backend is only for messages
  // Shared by all copies of this NcclGroup, and by all backends of the group.
  struct Known;
  std::shared_ptr<Known> known{};
};

// Watches the group while its backend exists.
void watch_nccl(NcclGroup group);
// Watches the backend for messages of the group that `collectives` belongs to, which is already watched.
void watch_messages(const c10::intrusive_ptr<c10d::Backend>& messages,
                    const c10::intrusive_ptr<c10d::Backend>& collectives);

// Writes to the stores of this rank's groups how many collectives it has entered in each. Called on every
// rank when a collective times out.
void tell_entered();

// `entered` has, for each place, the number of collectives that the rank has entered, or none if it has not
// answered. Returns "rank 2 has not entered its collective 41", or "" if no rank is missing.
std::string describe_absent(const NcclGroup& group, const std::vector<std::optional<std::int64_t>>& entered);

// nccl_failure_of() returns what is wrong with this backend, which may be null. any_nccl_failure() returns
// what is wrong with the backend of any group. They return "" if nothing is wrong.
std::string nccl_failure_of(const c10::intrusive_ptr<c10d::Backend>& backend);
std::string any_nccl_failure();
// Remembers why this rank's part of a group was given up, if nccl_failure_of() has not reported it. Call it
// when the group is destroyed.
void note_nccl_failure_of(const c10::intrusive_ptr<c10d::Backend>& backend);
// Returns the first failure that was remembered; "" if there is none.
std::string noted_nccl_failure();
// If one of this process's NCCL groups has failed, returns kUnavailable with the reason. The state that was
// trained with that group must not be saved.
Status check_groups();

}  // namespace muster
