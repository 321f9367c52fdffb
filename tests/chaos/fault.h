// A fault: its preparation, injection, effect, removal and cleanup; and the verdict that a job must give.
//
// Each trial makes its own objects. The order of calls: setup, what, (the moment), inject, propagated until
// true, recover, (the job's end), cleanup.
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

// The settings that a fault may change before the launch.
struct Stage {
  ScratchDirectory scratch;
  std::vector<std::string> flags;
  std::string logs = scratch / "logs";
  std::string checkpoints = scratch / "checkpoints";
  std::unique_ptr<ControlGroup> memory;
  pid_t launcher = 0;                    // after the launch
  std::function<std::string()> printed;  // the output of launcher and workers so far
};

// The victim's place when it announced its moment.
struct Mark {
  int rank = 0;
  pid_t worker = 0;
  pid_t agent = 0;
  std::uint64_t attempt = 0;
  int node = 0;
};

// The correct verdict. Without a culprit the fault must not fail an attempt.
struct Truth {
  std::optional<invariants::Culprit> culprit;
  std::string class_name;        // the class in report.json
  std::optional<int> exit_code;  // the launcher's exit code, when no restart is left
  int signal = 0;                // the signal that ended the culprit; 0: none of its own
};

class Fault {
 public:
  virtual ~Fault() = default;
  virtual void setup(Stage&) {}
  // The victim's own part in the fault (worker.cc).
  virtual std::string what() const { return "wait"; }
  virtual void inject(Stage&, const Mark&) {}
  virtual bool propagated(const Stage&, const Mark&) const = 0;
  virtual void recover(Stage&) {}
  virtual void cleanup(Stage&) {}
  virtual Truth truth(const Mark&) const = 0;
  // The fault hits the launcher: the job ends with it, and another launch resumes the training.
  virtual bool ends_launch() const { return false; }
};

struct FaultKind {
  std::string name;
  std::function<std::unique_ptr<Fault>(std::mt19937_64&)> make;
  std::string why_not;  // why it cannot happen here; empty: it can
  bool can_be_second;   // it may be the second fault, while the job recovers from the first
};
const std::vector<FaultKind>& fault_kinds();

}  // namespace muster::chaos
