// What is known of NCCL groups of this process whose communicators have been aborted: why, and who is
// missing.
//
// When a collective has not ended in time, each rank of the job tells the others, through the stores of its
// groups, how many collectives it has entered in each; who has entered fewer has not come. After that what
// GPUs do goes on with what happened to lie in the tensors, so that results may not be used. Who finds a
// group given up says so in its store. After a time-out a member that was not in that collective looks there,
// at most once a second, and refuses as well. Safe from any thread; nothing here waits for other ranks.
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
  std::vector<int> ranks;  // of the job, by place
  int place = 0;           // this process's
  std::string name;
  bool has_collectives = true;  // false: a backend of messages alone
  // Shared by copies, and by all backends of a group.
  struct Known;
  std::shared_ptr<Known> known{};
};

// As long as its backend is there.
void watch_nccl(NcclGroup group);
// As the backend that carries the messages of the group whose collectives are another one's, which is
// watched.
void watch_messages(const c10::intrusive_ptr<c10d::Backend>& messages,
                    const c10::intrusive_ptr<c10d::Backend>& collectives);

// How many collectives this rank has entered in each of its groups: into their stores. Called on every rank
// when a collective has not ended in time.
void tell_entered();

// "rank 2 has not come to its collective 41", by how many each place has entered;
// nothing: it has not said. Empty: all have come.
std::string describe_absent(const NcclGroup& group, const std::vector<std::optional<std::int64_t>>& entered);

// Empty: nothing is wrong with this backend, which may be null, or with that of any group.
std::string nccl_failure_of(const c10::intrusive_ptr<c10d::Backend>& backend);
std::string any_nccl_failure();
// Remembers why this rank's part of a group that goes now was given up, if nccl_failure_of() has not said so.
void note_nccl_failure_of(const c10::intrusive_ptr<c10d::Backend>& backend);
// The first that was remembered; empty: there is none.
std::string noted_nccl_failure();
// kUnavailable with that: what has been trained with such a group may not be kept.
Status check_groups();

}  // namespace muster
