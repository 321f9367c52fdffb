#include "launcher/core/view/line_prefix.h"

#include <algorithm>
#include <fmt/core.h>
#include <iterator>
#include <map>
#include <string_view>

#include "launcher/core/text/variable_name.h"

namespace muster::launcher {

std::string line_prefix(NodeId node, Rank rank, bool color, std::string_view mark) {
  // A rank keeps its colour for the whole job. Black, white and red are not used.
  constexpr int kColors[] = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};
  const std::string who = fmt::format("node{}:{}{}{}:", node, rank, mark.empty() ? "" : " ", mark);
  if (!color) return who + " ";
  return fmt::format("\x1b[{}m{}\x1b[0m ",
                     kColors[static_cast<std::size_t>(rank.value()) % std::size(kColors)], who);
}

std::string filled(const PrefixTemplate& prefix, Rank rank, LocalRank local_rank) {
  const std::map<std::string, std::string, std::less<>> values = {
      {"rank", fmt::format("{}", rank)},
      {"local_rank", fmt::format("{}", local_rank)},
      {"role_name", prefix.role},
      {"hostname", prefix.hostname}};
  std::string result;
  std::string_view rest = prefix.text;
  while (!rest.empty()) {
    const std::size_t plain = std::min(rest.find('$'), rest.size());
    result += rest.substr(0, plain);
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    const auto [name, size] = name_in(rest.substr(1));
    const auto value = values.find(name);
    const std::size_t used = rest.starts_with("$$") ? 2 : value != values.end() ? 1 + size : 1;
    result += used == 1 || rest.starts_with("$$") ? "$" : value->second;
    rest.remove_prefix(used);
  }
  return result;
}

}  // namespace muster::launcher
