#include "common/wire/json.h"

namespace muster {

nlohmann::json parse_shallow_json(std::string_view text, Fractions fractions) {
  constexpr int kDepthLimit = 8;
  return nlohmann::json::parse(
      text, [fractions](int depth, nlohmann::json::parse_event_t, const nlohmann::json& part) {
        if (depth > kDepthLimit)
          throw nlohmann::json::other_error::create(501, "nested deeper than 8", nullptr);
        if (part.is_number_float() && fractions == Fractions::kRefused)
          throw nlohmann::json::other_error::create(502, "a number that is not whole", nullptr);
        return true;
      });
}

}  // namespace muster
