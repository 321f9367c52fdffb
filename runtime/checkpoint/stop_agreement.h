// How all ranks come to stop at the same step, once they have been given notice.
//
// Each rank posts the step that it has done in the attempt's store; when all have posted, the stop is two
// steps after the highest. A rank is at most one step ahead of any other, for each step of data-parallel
// training waits for all, so every rank learns of the stop before it is there. Nobody waits: each rank asks
// once a step. For one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace muster {

class StopAgreement {
 public:
  // All ranks construct theirs in the same order.
  StopAgreement(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size);

  // After each step from the notice on: the step at whose end to stop, once all have agreed. An exception of
  // torch if the store is gone.
  std::optional<std::int64_t> ask(std::int64_t steps_done);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int world_size_;
  bool posted_ = false;
  std::optional<std::int64_t> stop_;
};

}  // namespace muster
