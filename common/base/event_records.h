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

// Each of these functions returns whole records. The caller appends them to the file. The first record of a
// file comes from beginning().
std::string beginning(double time);
// Returns a record that says that a training was resumed at this step. Readers then drop all that they have
// read for this step and later ones.
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
// Returns the record of a training's settings. `metrics` has the names of the scalars that TensorBoard
// compares between trainings.
std::string settings(When when, const Settings& values, const std::vector<std::string>& metrics);
// Use session_start() instead of settings() if TensorBoard should compare several trainings by all scalars.
// session_start() returns the record of a training's settings. session_end() returns the record of the
// training's end.
std::string session_start(When when, const Settings& values);
enum class SessionEnd { kSuccess = 1, kFailure = 2 };
std::string session_end(When when, SessionEnd how);

std::uint32_t crc32c(std::string_view bytes);

}  // namespace muster::event_records
