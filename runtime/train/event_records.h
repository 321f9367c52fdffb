// What TensorBoard reads: records of an event file (TFRecord: length, checksum, bytes, checksum), each an
// Event message in protobuf's wire format (tensorflow/core/util/event.proto, summary.proto), and PNG images.
//
// Plain functions from values to bytes, safe from any thread. No file is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster::event_records {

// Unix seconds, and what the event is of.
struct When {
  double time = 0;
  std::int64_t step = 0;
};
using Scalars = std::map<std::string, double>;
using Settings = std::map<std::string, std::variant<bool, std::int64_t, double, std::string>>;

// Whole records, to be written one behind the other; `beginning` is a file's first.
std::string beginning(double time);
// What a reader has seen of this step and later ones is void: a training begins at it anew.
std::string restart(When when);
std::string scalars(When when, const Scalars& values);
// Numbers that are NaN are not counted.
std::string histogram(When when, const std::string& tag, std::span<const double> values);
// `png`: the bytes of such a file.
struct Size {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  // 1 grey, 3 colours
};
std::string image(When when, const std::string& tag, Size size, std::string_view png);
std::string text(When when, const std::string& tag, std::string_view text);
// With the names of the metrics by which trainings of other settings are compared.
std::string settings(When when, const Settings& values, const std::vector<std::string>& metrics);

// Pixels by row and column, each of `channels` bytes.
std::string png_of(Size size, std::string_view pixels);
std::uint32_t crc32c(std::string_view bytes);

}  // namespace muster::event_records
