#include "launcher/core/reactions.h"

namespace muster::launcher {

namespace {

constexpr auto kIgnore = Reaction::kIgnore;
constexpr auto kNote = Reaction::kNote;
constexpr auto kStop = Reaction::kStop;
constexpr auto kHurry = Reaction::kHurry;

}  // namespace

const std::array<std::array<Reaction, kPhaseCount>, kOccurrenceCount> kReactions = {{
    //  gathering  beginning  preparing  running  stopping  leaving  done
    {{kNote, kIgnore, kIgnore, kIgnore, kIgnore, kIgnore, kIgnore}},  // joined
    {{kStop, kStop, kStop, kStop, kNote, kNote, kIgnore}},            // lost
    {{kNote, kNote, kNote, kNote, kNote, kNote, kIgnore}},            // strays ended
    {{kIgnore, kNote, kIgnore, kIgnore, kIgnore, kIgnore, kIgnore}},  // begun
    {{kIgnore, kStop, kIgnore, kIgnore, kIgnore, kIgnore, kIgnore}},  // denied
    {{kIgnore, kIgnore, kNote, kIgnore, kIgnore, kIgnore, kIgnore}},  // prepared
    {{kIgnore, kIgnore, kStop, kStop, kNote, kIgnore, kIgnore}},      // refused
    {{kIgnore, kIgnore, kIgnore, kNote, kNote, kIgnore, kIgnore}},    // worker ended
    {{kIgnore, kIgnore, kIgnore, kStop, kNote, kIgnore, kIgnore}},    // worker failed
    {{kIgnore, kIgnore, kIgnore, kNote, kNote, kIgnore, kIgnore}},    // node emptied
    {{kIgnore, kIgnore, kIgnore, kStop, kNote, kIgnore, kIgnore}},    // fenced
    {{kStop, kStop, kStop, kStop, kHurry, kHurry, kIgnore}},          // interrupted
}};

}  // namespace muster::launcher
