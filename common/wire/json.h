// JSON from files that others may have written.
//
// The library reads any depth of nesting, but writes and copies by recursion, so that a deep document would
// end the process. This refuses it while reading. A plain function; safe in any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace muster {

// nlohmann::json::exception if it is not JSON, or nested deeper than 8: none of our files is.
nlohmann::json parse_shallow_json(std::string_view text);

}  // namespace muster
