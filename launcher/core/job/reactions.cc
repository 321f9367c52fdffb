#include "launcher/core/job/reactions.h"

namespace muster::launcher {

namespace {

constexpr auto kIgnor = Reaction::kIgnore;
constexpr auto kNote = Reaction::kNote;
constexpr auto kAwait = Reaction::kAwait;
constexpr auto kDump = Reaction::kDump;
constexpr auto kSave = Reaction::kPreempt;
constexpr auto kStop = Reaction::kStop;
constexpr auto kKill = Reaction::kKill;

}  // namespace

// clang-format off
const std::array<std::array<Reaction, kPhaseCount>, kOccurrenceCount> kReactions = {{
    // gathering beginning preparing running dumping preempting stopping leaving done
    {{kNote,   kIgnor, kIgnor, kIgnor, kIgnor, kIgnor, kIgnor, kIgnor, kIgnor}},  // joined
    {{kStop,   kStop,  kStop,  kStop,  kStop,  kStop,  kNote,  kNote,  kIgnor}},  // lost
    {{kNote,   kIgnor, kIgnor, kIgnor, kIgnor, kIgnor, kNote,  kNote,  kIgnor}},  // spare lost
    {{kNote,   kNote,  kNote,  kNote,  kNote,  kNote,  kNote,  kNote,  kIgnor}},  // leftovers gone
    {{kStop,   kIgnor, kIgnor, kIgnor, kIgnor, kIgnor, kIgnor, kIgnor, kIgnor}},  // too few
    {{kIgnor,  kNote,  kIgnor, kIgnor, kIgnor, kIgnor, kIgnor, kIgnor, kIgnor}},  // begun
    {{kIgnor,  kStop,  kIgnor, kIgnor, kIgnor, kIgnor, kIgnor, kIgnor, kIgnor}},  // denied
    {{kIgnor,  kIgnor, kNote,  kIgnor, kIgnor, kIgnor, kIgnor, kIgnor, kIgnor}},  // prepared
    {{kIgnor,  kIgnor, kNote,  kStop,  kStop,  kStop,  kNote,  kIgnor, kIgnor}},  // refused
    {{kIgnor,  kIgnor, kNote,  kNote,  kNote,  kNote,  kNote,  kIgnor, kIgnor}},  // unfit
    {{kIgnor,  kIgnor, kIgnor, kNote,  kNote,  kNote,  kNote,  kIgnor, kIgnor}},  // worker ended
    {{kIgnor,  kIgnor, kIgnor, kStop,  kNote,  kStop,  kNote,  kIgnor, kIgnor}},  // worker failed
    {{kIgnor,  kIgnor, kIgnor, kAwait, kNote,  kStop,  kNote,  kIgnor, kIgnor}},  // peer missed
    {{kIgnor,  kIgnor, kIgnor, kNote,  kNote,  kNote,  kNote,  kIgnor, kIgnor}},  // node emptied
    {{kIgnor,  kIgnor, kIgnor, kStop,  kStop,  kStop,  kNote,  kIgnor, kIgnor}},  // fenced
    {{kStop,   kStop,  kStop,  kStop,  kStop,  kStop,  kKill, kKill, kIgnor}},  // interrupted
    {{kIgnor,  kIgnor, kIgnor, kSave,  kIgnor, kIgnor, kIgnor, kIgnor, kIgnor}},  // noticed
    {{kIgnor,  kIgnor, kIgnor, kIgnor, kIgnor, kStop,  kIgnor, kIgnor, kIgnor}},  // notice expired
    {{kIgnor,  kIgnor, kIgnor, kNote,  kNote,  kIgnor, kIgnor, kIgnor, kIgnor}},  // may hang
    {{kIgnor,  kIgnor, kIgnor, kDump,  kNote,  kIgnor, kIgnor, kIgnor, kIgnor}},  // stalled
    {{kIgnor,  kIgnor, kIgnor, kIgnor, kStop,  kIgnor, kIgnor, kIgnor, kIgnor}},  // stacks ended
    {{kStop,   kStop,  kStop,  kStop,  kStop,  kStop,  kNote,  kIgnor, kIgnor}},  // time limit
}};
// clang-format on

}  // namespace muster::launcher
