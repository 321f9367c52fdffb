// Makes the prefix that a worker's line has on the terminal and in `launch logs`, such as "node0:2: ".
//
// Users may choose another prefix for the terminal. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/base/ids.h"

namespace muster::launcher {

// Returns the prefix of a line. If `mark` is "stderr", it is like "node0:2 stderr: ".
std::string line_prefix(NodeId node, Rank rank, bool color, std::string_view mark = {});

// The value of --log-line-prefix-template. It is read as torchrun reads it.
struct PrefixTemplate {
  std::string text;
  std::string role;
  std::string hostname;
};
// Returns the prefix with values for the placeholders rank, local_rank, role_name and hostname. They have the
// form $rank or ${rank}. $$ becomes a dollar sign. Other names stay as they are.
std::string filled(const PrefixTemplate& prefix, Rank rank, LocalRank local_rank);

}  // namespace muster::launcher
