// The job's simulated input: numbered records that the launcher reads, and the stdin of the rank that gets
// them.
//
// Checks that a rank reads each record once in an attempt, that an attempt continues after the last record
// read, and that the end comes after the last record. One thread.
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

// One worker's stdin: a pipe, and the bytes that wait in front of it.
class SimulatedStdin {
 public:
  SimulatedStdin(World& world, int launch, std::int32_t pid) : world_(world), launch_(launch), pid_(pid) {}

  std::int32_t pid() const { return pid_; }
  void give(const wire::Input& input);
  // The worker reads some bytes from the pipe, or its end.
  void read();
  // A read would not block.
  bool readable() const { return !pipe_.empty() || (ended_ && !end_read_); }
  // The message for the launcher, if there is news.
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
