// The prefix of a worker's line on the terminal and in `launch logs`: "node0:2: ".
//
// Users may choose another prefix for the terminal. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/base/ids.h"

namespace muster::launcher {

// With `mark`: "node0:2 stderr: ".
std::string line_prefix(NodeId node, Rank rank, bool color, std::string_view mark = {});

// --log-line-prefix-template, as torchrun reads it.
struct PrefixTemplate {
  std::string text;
  std::string role;
  std::string hostname;
};
// The prefix with values for $rank or ${rank}, local_rank, role_name and hostname; $$ is a dollar, other
// names stay as they are.
std::string filled(const PrefixTemplate& prefix, Rank rank, LocalRank local_rank);

}  // namespace muster::launcher
