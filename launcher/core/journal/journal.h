// What a launcher writes down of its job, so that the same can be decided again: the plan, then each event
// that the core saw, with its time and what was decided.
//
// A long journal goes on in a new file, which begins with the state of the core. Keys and what `--env` gave
// are in neither. Pure: makes bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/controller.h"

namespace muster::launcher {

// The first bytes of a journal. `version`: of this program.
std::string journal_head(const Plan& plan, std::string_view version);
// These two are empty if the record would be longer than a journal's may be.
// The state of the core after the events so far, for a file that goes on where another ended.
std::string journal_state(const Controller& controller);
std::string journal_entry(const Event& event, TimePoint at, const Decisions& decisions);

struct Replay {
  std::string version;  // of the launcher that wrote the journal
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

// Runs the events of a journal, which may be anybody's, through the same core, until it decides something
// else. kCorrupt, in one short line: these bytes are no journal, or a damaged one.
Expected<Replay> replay(std::string_view bytes);

std::string replay_as_text(const Replay& replay);
std::string replay_as_json(const Replay& replay);

}  // namespace muster::launcher
