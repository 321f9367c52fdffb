// The job's input, simulated: numbered records that the launcher reads, and the stdin of the rank that gets
// them.
//
// A rank reads no record twice in one attempt and misses none, an attempt begins where the one before it has
// not read, and the end comes behind the last record: that is held here. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/io/input.h"
#include "tests/simulation/world.h"

namespace muster::simulation {

class SimulatedInput final : public launcher::Input {
 public:
  SimulatedInput(std::uint64_t seed, std::weak_ptr<Program> program)
      : chance_(seed, 31), program_(std::move(program)) {}
  void read(std::size_t most, OnRead done) override;

 private:
  Chance chance_;
  std::weak_ptr<Program> program_;
  std::uint64_t next_ = 0;  // record
};

// Of one worker: a pipe, and what waits before it.
class SimulatedStdin {
 public:
  SimulatedStdin(World& world, int launch, std::int32_t pid) : world_(world), launch_(launch), pid_(pid) {}

  std::int32_t pid() const { return pid_; }
  void give(const wire::Input& input);
  // The worker reads some of what is in the pipe, or its end.
  void read();
  // A read would not wait.
  bool readable() const { return !pipe_.empty() || (ended_ && !end_read_); }
  // What is to be told, if anything is new.
  std::optional<wire::InputTaken> news();

 private:
  void fill();

  World& world_;
  int launch_;
  std::int32_t pid_;
  std::string waiting_;
  std::string pipe_;
  wire::InputTaken taken_;
  wire::InputTaken told_;
  std::optional<std::uint64_t> last_;  // record
  bool ended_ = false;
  bool end_read_ = false;
};

}  // namespace muster::simulation
