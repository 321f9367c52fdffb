// What the obscure errors of this field mean, by the text that they leave: a table of patterns, each with
// what to do.
//
// Looked for in a worker's last lines and error file. A hint never decides anything; that a worker lost its
// peer does, and has a function of its own. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

struct Hint {
  std::vector<std::string_view> patterns;  // all of which must occur
  std::string_view text;
};
std::span<const Hint> hints();

// The hint for the first pattern of the table that occurs in the text, or "".
std::string_view hint_for(std::string_view text);

// Whether the text says that a connection to another rank broke: its writer is then a victim, as a rule.
bool shows_lost_peer(std::string_view text);

// The same, or that a rank did not come to where the writer waits for it.
bool shows_missed_peer(std::string_view text);

// Whether the text says that a disk is full.
bool shows_full_disk(std::string_view text);

}  // namespace muster::launcher
