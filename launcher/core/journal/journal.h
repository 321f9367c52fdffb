// The journal of a job. It has the plan, and then each event that the core handled, with its time and the
// decisions. From it, the same decisions can be replayed.
//
// A long journal continues in a new file that begins with the state of the core. Journals contain neither
// keys nor values of `--env`. Pure: makes bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/controller.h"

namespace muster::launcher {

// Returns the first bytes of a journal. `version` is the version of this program.
std::string journal_head(const Plan& plan, std::string_view version);
// Returns the state of the core after the events so far. A file that continues another one needs it. If the
// record would be longer than kMaxRecordBytes, this function and the next return "".
std::string journal_state(const Controller& controller);
std::string journal_entry(const Event& event, TimePoint at, const Decisions& decisions);

struct Replay {
  std::string version;  // the version of the launcher that wrote the journal
  std::uint64_t event_count = 0;
  std::uint64_t decision_count = 0;
  bool torn = false;  // the launcher was killed while it wrote the last record
  struct Difference {
    std::uint64_t event = 0;  // its number, from 1
    std::string name;         // of the event
    std::vector<std::string> recorded;
    std::vector<std::string> replayed;
  };
  std::optional<Difference> first_difference{};
};

// Gives the events of a journal to the core once more, up to the first decision that differs from the
// recorded one. The journal need not be trusted. If the bytes are not a journal or are damaged, returns
// kCorrupt in one short line.
Expected<Replay> replay(std::string_view bytes);

std::string replay_as_text(const Replay& replay);
std::string replay_as_json(const Replay& replay);

}  // namespace muster::launcher
