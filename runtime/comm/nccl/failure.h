// Finds out why NCCL has given up groups of this process, and which ranks are missing.
//
// When a collective times out, each rank of the job writes numbers to the stores of its groups: for each
// group, how many of the group's collectives the rank has entered. If a rank's number is smaller than the
// number of another rank, the rank with the smaller number is missing. NCCL then aborts its communicator. The
// GPUs go on with arbitrary data in the tensors, so the results must not be used.
//
// If a rank finds that a group has been given up, it writes this to the group's store. The members that were
// not in the collective look into the store after the timeout, at most once per second. If the group has been
// given up, they refuse further calls.
//
// Any thread can call the functions. No function waits for other ranks.
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
  // Keeps what this process knows about the group. All copies of this NcclGroup and all backends of the group
  // share it.
  struct Known;
  std::shared_ptr<Known> known{};
};

// Watches the group for failures as long as its backend exists.
void watch_nccl(NcclGroup group);
// Watches `messages`, the backend for the messages of a group. `collectives` is the backend for the same
// group's collectives. Call watch_nccl() for the group first.
void watch_messages(const c10::intrusive_ptr<c10d::Backend>& messages,
                    const c10::intrusive_ptr<c10d::Backend>& collectives);

// For each group of this rank, writes to the group's store how many collectives of the group this rank has
// entered. It is called on every rank when a collective times out.
void tell_entered();

// `entered` has an element for each place of the group: the number of collectives that the rank there has
// entered. It is empty for a rank that has not answered. Returns a text such as "rank 2 has not entered its
// collective 41". Returns "" if all ranks have entered it.
std::string describe_absent(const NcclGroup& group, const std::vector<std::optional<std::int64_t>>& entered);

// nccl_failure_of() returns a description of the failure of this backend. `backend` may be null.
// any_nccl_failure() returns a description of a failure in any group. Both return "" if nothing has failed.
std::string nccl_failure_of(const c10::intrusive_ptr<c10d::Backend>& backend);
std::string any_nccl_failure();
// Call it when the group is destroyed, for each of its backends. If NCCL has given up the backend on this
// rank, this function remembers the reason, unless nccl_failure_of() has already reported the reason.
void note_nccl_failure_of(const c10::intrusive_ptr<c10d::Backend>& backend);
// Returns the first failure that was remembered; "" if there is none.
std::string noted_nccl_failure();
// If one of this process's NCCL groups has failed, returns kUnavailable with the reason. The state that was
// trained with that group must not be saved.
Status check_groups();

}  // namespace muster
