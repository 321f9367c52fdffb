#include "common/base/event_records.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace muster::event_records {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

template <class Number>
std::string_view bytes_of(const Number& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

// Builds a protobuf message, field by field. Fields with the value 0 are written, too; readers accept that.
class Message {
 public:
  Message& integer(unsigned field, std::uint64_t value) {
    tag(field, 0);
    varint(value);
    return *this;
  }
  Message& real(unsigned field, double value) {
    tag(field, 1);
    bytes_ += bytes_of(value);
    return *this;
  }
  Message& narrow_real(unsigned field, float value) {
    tag(field, 5);
    bytes_ += bytes_of(value);
    return *this;
  }
  Message& text(unsigned field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(unsigned field, const Message& value) { return text(field, value.bytes_); }
  Message& reals(unsigned field, std::span<const double> values) {
    return text(field, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(unsigned field, unsigned type) { varint(field << 3 | type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// Returns the checksum in TFRecord's masked form. Without the mask, all bytes that end with their own
// checksum would have one and the same checksum.
std::uint32_t masked(std::uint32_t crc) {
  return std::rotr(crc, 15) + 0xA282EAD8U;
}

std::string record(const Message& event) {
  const std::string& bytes = event.bytes();
  const std::uint64_t size = bytes.size();
  std::string made(bytes_of(size));
  made += bytes_of(masked(crc32c(bytes_of(size))));
  made += bytes;
  made += bytes_of(masked(crc32c(bytes)));
  return made;
}

Message event_of(When when) {
  return Message().real(1, when.time).integer(2, static_cast<std::uint64_t>(when.step));
}

std::string with_summary(When when, const Message& summary) {
  return record(event_of(when).message(5, summary));
}

// Builds a SummaryMetadata with a plugin's name and content.
Message metadata_of(std::string_view plugin, std::string_view content) {
  return Message().message(1, Message().text(1, plugin).text(2, content));
}

// Returns the limits of TensorBoard's buckets. The first positive limit is 1e-12, and each later one is 1.1
// times the one before. The negatives of these are limits, too, and so is 0.
const std::vector<double>& bucket_limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> above;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) above.push_back(limit);
    std::vector<double> all;
    for (auto limit = above.rbegin(); limit != above.rend(); ++limit) all.push_back(-*limit);
    all.push_back(0);
    all.insert(all.end(), above.begin(), above.end());
    all.push_back(std::numeric_limits<double>::max());
    return all;
  }();
  return limits;
}

Message histogram_of(std::span<const double> values) {
  const std::vector<double>& limits = bucket_limits();
  std::vector<double> counts(limits.size());
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  double number = 0;
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    const auto place = std::ranges::lower_bound(limits, value) - limits.begin();
    ++counts[std::min(static_cast<std::size_t>(place), limits.size() - 1)];
    least = std::min(least, value);
    most = std::max(most, value);
    ++number;
    sum += value;
    squares += value * value;
  }
  // Leaves out the empty buckets at both ends. But one empty bucket on the left stays, because the first bar
  // begins at its limit.
  const auto is_used = [](double count) { return count > 0; };
  auto first = std::ranges::find_if(counts, is_used) - counts.begin();
  auto last = std::ssize(counts) - 1;
  while (last > first && !is_used(counts[static_cast<std::size_t>(last)])) --last;
  if (number == 0) first = last = least = most = 0;
  first = std::max<std::ptrdiff_t>(first - 1, 0);
  const auto from = static_cast<std::size_t>(first);
  const auto size = static_cast<std::size_t>(last - first + 1);
  return Message()
      .real(1, least)
      .real(2, most)
      .real(3, number)
      .real(4, sum)
      .real(5, squares)
      .reals(6, std::span(limits).subspan(from, size))
      .reals(7, std::span(counts).subspan(from, size));
}

// Builds a google.protobuf.Value.
Message value_of(const std::variant<bool, std::int64_t, double, std::string>& setting) {
  Message value;
  if (const auto* const flag = std::get_if<bool>(&setting)) value.integer(4, *flag ? 1 : 0);
  if (const auto* const whole = std::get_if<std::int64_t>(&setting))
    value.real(2, static_cast<double>(*whole));
  if (const auto* const real = std::get_if<double>(&setting)) value.real(2, *real);
  if (const auto* const text = std::get_if<std::string>(&setting)) value.text(3, *text);
  return value;
}

// Returns HParamInfo.type: 1 is DATA_TYPE_STRING, 2 is DATA_TYPE_BOOL, 3 is DATA_TYPE_FLOAT64.
std::uint64_t type_of(const std::variant<bool, std::int64_t, double, std::string>& setting) {
  if (std::holds_alternative<std::string>(setting)) return 1;
  return std::holds_alternative<bool>(setting) ? 2 : 3;
}

// Builds a record with an HParamsPluginData message.
std::string hparams(When when, std::string_view tag, const Message& content) {
  const Message metadata = metadata_of("hparams", content.bytes());
  return with_summary(when, Message().message(1, Message().text(1, tag).message(9, metadata)));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t crc = byte;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78U : 0);
      made[byte] = crc;
    }
    return made;
  }();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

std::string beginning(double time) {
  return record(Message().real(1, time).text(3, "brain.Event:2"));
}

std::string restart(When when) {
  constexpr std::uint64_t kStart = 1;
  return record(event_of(when).message(7, Message().integer(1, kStart)));
}

std::string scalars(When when, const Scalars& values) {
  Message summary;
  for (const auto& [tag, value] : values)
    summary.message(1, Message().text(1, tag).narrow_real(2, static_cast<float>(value)));
  return with_summary(when, summary);
}

std::string histogram(When when, const std::string& tag, std::span<const double> values) {
  return with_summary(when, Message().message(1, Message().text(1, tag).message(5, histogram_of(values))));
}

std::string image(When when, const std::string& tag, Size size, std::string_view png) {
  const Message picture = Message()
                              .integer(1, static_cast<std::uint64_t>(size.height))
                              .integer(2, static_cast<std::uint64_t>(size.width))
                              .integer(3, static_cast<std::uint64_t>(size.channels))
                              .text(4, png);
  return with_summary(when, Message().message(1, Message().text(1, tag).message(4, picture)));
}

std::string text(When when, const std::string& tag, std::string_view text) {
  constexpr std::uint64_t kString = 7;
  const Message shape = Message().message(2, Message().integer(1, 1));
  const Message tensor = Message().integer(1, kString).message(2, shape).text(8, text);
  return with_summary(
      when,
      Message().message(
          1,
          Message().text(1, tag + "/text_summary").message(9, metadata_of("text", "")).message(8, tensor)));
}

std::string session_start(When when, const Settings& values) {
  Message start;
  for (const auto& [name, value] : values)
    start.message(1, Message().text(1, name).message(2, value_of(value)));
  start.real(5, when.time);
  return hparams(when, "_hparams_/session_start_info", Message().message(3, start));
}

std::string session_end(When when, SessionEnd how) {
  const Message end = Message().integer(1, static_cast<std::uint64_t>(how)).real(2, when.time);
  return hparams(when, "_hparams_/session_end_info", Message().message(4, end));
}

std::string settings(When when, const Settings& values, const std::vector<std::string>& metrics) {
  Message experiment;
  for (const auto& [name, value] : values)
    experiment.message(4, Message().text(1, name).integer(4, type_of(value)));
  for (const std::string& metric : metrics)
    experiment.message(5, Message().message(1, Message().text(2, metric)));
  return hparams(when, "_hparams_/experiment", Message().message(2, experiment)) +
         session_start(when, values) + session_end(when, SessionEnd::kSuccess);
}

}  // namespace muster::event_records
