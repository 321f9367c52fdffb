// A fault as an object: made ready, injected, seen to have taken hold, taken away, cleaned up; and what a job
// may rightly say about it.
//
// Each trial makes its own. The order of calls: setup, what, (the moment), inject, propagated until true,
// recover, (the job's end), cleanup.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <sys/types.h>
#include <vector>

#include "common/base/clock.h"
#include "tests/chaos/machine.h"
#include "tests/invariants.h"
#include "tests/scratch_directory.h"

namespace muster::chaos {

// What a fault may change before the launch.
struct Stage {
  ScratchDirectory scratch;
  std::vector<std::string> flags;
  std::string logs = scratch / "logs";
  std::string checkpoints = scratch / "checkpoints";
  std::unique_ptr<ControlGroup> memory;
  pid_t launcher = 0;                    // once launched
  std::function<std::string()> printed;  // by launcher and workers, so far
};

// Where the victim was when it announced its moment.
struct Mark {
  int rank = 0;
  pid_t worker = 0;
  pid_t agent = 0;
  std::uint64_t attempt = 0;
  int node = 0;
};

// What is right to say. Without a culprit the job should not have been disturbed.
struct Truth {
  std::optional<invariants::Culprit> culprit;
  std::string class_name;        // in report.json
  std::optional<int> exit_code;  // of the launcher, when no restart is left
  int signal = 0;                // of the culprit; 0: not by a signal of its own
};

class Fault {
 public:
  virtual ~Fault() = default;
  virtual void setup(Stage&) {}
  // What the victim is to do itself (worker.cc).
  virtual std::string what() const { return "wait"; }
  virtual void inject(Stage&, const Mark&) {}
  virtual bool propagated(const Stage&, const Mark&) const = 0;
  virtual void recover(Stage&) {}
  virtual void cleanup(Stage&) {}
  virtual Truth truth(const Mark&) const = 0;
  // The launcher itself is hit: the job ends with it, and another launch goes on.
  virtual bool ends_launch() const { return false; }
};

struct FaultKind {
  std::string name;
  std::function<std::unique_ptr<Fault>(std::mt19937_64&)> make;
  std::string why_not;  // it cannot be made here
  bool can_be_second;   // while the job recovers from another
};
const std::vector<FaultKind>& fault_kinds();

}  // namespace muster::chaos
