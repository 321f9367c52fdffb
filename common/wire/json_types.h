// Converts Muster's plain types to JSON and CBOR, and back. Ids become numbers, an empty optional becomes
// null, and durations and times become nanoseconds.
//
// Include this file where conversions are defined with nlohmann's macros. The functions check their input,
// which cannot be trusted.
#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/process.h"

namespace muster {

// Returns `count`. If it is more than 30 years, in either direction, throws std::out_of_range instead. So
// sums of such times cannot overflow.
inline std::int64_t check_nanoseconds(std::int64_t count) {
  constexpr std::int64_t kMost = 1'000'000'000'000'000'000;
  if (count < -kMost || count > kMost)
    throw std::out_of_range(fmt::format("{} ns are more than 30 years", count));
  return count;
}

}  // namespace muster

namespace nlohmann {

template <class Tag, class Number>
struct adl_serializer<muster::Id<Tag, Number>> {
  static void to_json(json& out, muster::Id<Tag, Number> id) { out = id.value(); }
  static void from_json(const json& in, muster::Id<Tag, Number>& id) {
    id = muster::Id<Tag, Number>(in.get<Number>());
  }
};

template <class T>
struct adl_serializer<std::optional<T>> {
  static void to_json(json& out, const std::optional<T>& value) { value ? out = *value : out = nullptr; }
  static void from_json(const json& in, std::optional<T>& value) {
    if (in.is_null()) {
      value.reset();
    } else {
      value = in.get<T>();
    }
  }
};

template <>
struct adl_serializer<muster::Duration> {
  static void to_json(json& out, muster::Duration value) { out = std::chrono::nanoseconds(value).count(); }
  static void from_json(const json& in, muster::Duration& value) {
    value = muster::from_ns(muster::check_nanoseconds(in.get<std::int64_t>()));
  }
};

template <>
struct adl_serializer<muster::TimePoint> {
  static void to_json(json& out, muster::TimePoint value) { out = muster::to_ns(value); }
  static void from_json(const json& in, muster::TimePoint& value) {
    value = muster::TimePoint(in.get<muster::Duration>());
  }
};

}  // namespace nlohmann

namespace muster {

// All fields of a Leftover are required. If a field could be left out, a message with many leftovers would
// become longer when it is written again, and might be too long.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Leftover, pid, name, uid, error, node)

}  // namespace muster
