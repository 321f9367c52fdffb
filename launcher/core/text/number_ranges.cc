#include "launcher/core/text/number_ranges.h"

#include <algorithm>

#include "common/base/text.h"

namespace muster::launcher {

Expected<NumberRanges> NumberRanges::parse(std::string_view text, std::string_view flag) {
  NumberRanges result;
  if (text.empty()) return result;
  for (const std::string_view part : split(text, ',')) {
    const auto ends = split(part, '-');
    const auto first = parse_number<std::int32_t>(ends.front());
    const auto last = parse_number<std::int32_t>(ends.back());
    if (ends.size() > 2 || !first || !last || *first < 0 || *last < *first)
      return failure(ErrorCode::kInvalidArgument, "{}: {} is not a list of numbers: give them as 0,4-7", flag,
                     text);
    result.ranges_.emplace_back(*first, *last);
  }
  return result;
}

bool NumberRanges::contains(std::int32_t number) const {
  return ranges_.empty() || std::ranges::any_of(ranges_, [number](const auto& range) {
           return number >= range.first && number <= range.second;
         });
}

std::optional<std::int32_t> NumberRanges::beyond(std::int32_t count) const {
  for (const auto& [first, last] : ranges_) {
    if (last >= count) return std::max(first, count);
  }
  return std::nullopt;
}

}  // namespace muster::launcher
