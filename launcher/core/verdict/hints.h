// Explains obscure error messages with a table of text patterns, each with advice.
//
// The patterns are looked up in a worker's last lines and error file. The advice is only text for the user.
// The functions that return bool use patterns, too, and they affect a verdict. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

struct Hint {
  std::vector<std::string_view> patterns;  // all must occur
  std::string_view text;
};
std::span<const Hint> hints();

// Returns the hint of the first row of the table whose patterns all occur in the text. Returns "" if there is
// none. `chose_python` is true if launch, and not the user, chose the Python that runs the program.
std::string_view hint_for(std::string_view text, bool chose_python);

// Whether the text says that a connection to another rank broke. The rank that wrote it is usually a victim.
bool shows_lost_peer(std::string_view text);

// Returns whether the text says that this rank missed another rank: the connection to it broke, or it did not
// arrive where this rank waited for it.
bool shows_missed_peer(std::string_view text);

// Whether the text says that a disk is full.
bool shows_full_disk(std::string_view text);

}  // namespace muster::launcher
