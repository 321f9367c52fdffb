// One launch's access to the checkpoint directory: takes attempt numbers and finds commits, immediately or
// late, or fails.
//
// Implements the launcher's seam to the lineage. Lives as long as its launch. One thread.
#pragma once

#include <functional>
#include <memory>

#include "launcher/io/lineage.h"
#include "tests/simulation/world.h"

namespace muster::simulation {

class SimulatedLineage final : public launcher::Lineage {
 public:
  SimulatedLineage(World& world, int launch, std::shared_ptr<Program> program)
      : world_(world), launch_(launch), program_(std::move(program)) {}
  SimulatedLineage(const SimulatedLineage&) = delete;
  SimulatedLineage& operator=(const SimulatedLineage&) = delete;

  // Answers nothing before this time.
  void be_late(TimePoint until) { late_until_ = until; }
  // The number of next attempts that cannot begin.
  void fail(int count) { failures_ = count; }
  // Attempts that it denied because of another launch, and because of the disk.
  bool has_fenced() const { return has_fenced_; }
  int denial_count() const { return denial_count_; }

  void begin_attempt(const launcher::BeginAttempt& wish, OnBegun begun, OnDenied denied) override;
  void newest_commit(const launcher::LookForCheckpoint& wish, OnFound found) override;

 private:
  void answer(std::function<void()> what);
  std::expected<Directory::Begun, launcher::AttemptDenied> begin(const launcher::BeginAttempt& wish);

  World& world_;
  int launch_;
  std::shared_ptr<Program> program_;
  TimePoint late_until_{};
  TimePoint answered_{};
  int failures_ = 0;
  bool has_fenced_ = false;
  int denial_count_ = 0;
};

}  // namespace muster::simulation
