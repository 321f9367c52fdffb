// Builds the records of an event file, which TensorBoard reads. A record has TFRecord's format: length,
// checksum, bytes, checksum. The bytes are an Event message in protobuf's wire format
// (tensorflow/core/util/event.proto, summary.proto; tensorboard/plugins/hparams/plugin_data.proto).
//
// Pure functions.
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

// Unix seconds, and the training's step.
struct When {
  double time = 0;
  std::int64_t step = 0;
};
using Scalars = std::map<std::string, double>;
using Settings = std::map<std::string, std::variant<bool, std::int64_t, double, std::string>>;

// Each function returns whole records, to be appended to a file. beginning() returns a file's first record.
std::string beginning(double time);
// Tells readers to drop what they have read from this step on, because a training was resumed at this step.
std::string restart(When when);
std::string scalars(When when, const Scalars& values);
// Does not count NaN.
std::string histogram(When when, const std::string& tag, std::span<const double> values);
// `png`: the bytes of a PNG file.
struct Size {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  // 1: gray, 3: colors
};
std::string image(When when, const std::string& tag, Size size, std::string_view png);
std::string text(When when, const std::string& tag, std::string_view text);
// The settings of a training. `metrics`: the names of the scalars that TensorBoard compares between
// trainings.
std::string settings(When when, const Settings& values, const std::vector<std::string>& metrics);
// The settings and the end of one of several trainings, in place of settings(). TensorBoard then compares the
// trainings by all scalars.
std::string session_start(When when, const Settings& values);
enum class SessionEnd { kSuccess = 1, kFailure = 2 };
std::string session_end(When when, SessionEnd how);

std::uint32_t crc32c(std::string_view bytes);

}  // namespace muster::event_records
