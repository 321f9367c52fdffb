// Asks the compiler for the names of types and for the numbers of enumerators.
//
// Constants, safe in any thread. The names of types have no namespaces.
#pragma once

#include <string_view>

namespace muster::launcher {

// Returns the name of a type without its namespace, such as "AgentSaid".
template <class Type>
constexpr std::string_view name_of_type() {
  std::string_view text = __PRETTY_FUNCTION__;  // "... [Type = muster::wire::Ping]", GCC: "[with ...; ...]"
  text.remove_prefix(text.find("Type = ") + 7);
  text = text.substr(0, text.find_first_of("];"));
  return text.substr(text.rfind(':') + 1);
}

template <auto value>
constexpr bool is_enumerator() {
  // The text ends like "... [value = muster::launcher::Phase::kDone]". If a number has no name, it ends like
  // "[value = (muster::launcher::Phase)9]".
  constexpr std::string_view kText = __PRETTY_FUNCTION__;
  return kText[kText.find("value = ") + 8] != '(';
}

// Returns the number of enumerators. They must be numbered from 0 without a gap.
template <class Enum, int count = 0>
constexpr int enumerator_count() {
  if constexpr (is_enumerator<static_cast<Enum>(count)>()) {
    return enumerator_count<Enum, count + 1>();
  } else {
    return count;
  }
}

}  // namespace muster::launcher
