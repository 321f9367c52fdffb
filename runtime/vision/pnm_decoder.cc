// Reads Netpbm's PBM, PGM and PPM (P1 to P6) as Pillow's PpmImagePlugin does. It removes comments everywhere,
// even inside a number, and clips gray of more than 8 bits at 255.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/text.h"
#include "runtime/vision/image_decoder.h"

namespace muster {

namespace {

constexpr std::string_view kPnmSpace = " \t\n\v\f\r";
constexpr std::size_t kLongestPnmNumber = 10;

// Reads characters and numbers one after the other. Skips comments.
class PnmText {
 public:
  PnmText(std::span<const std::uint8_t> bytes, std::size_t at) : bytes_(bytes), at_(at) {}

  std::size_t at() const { return at_; }
  // Returns the next character that is not in a comment. Returns nothing at the end.
  std::optional<char> letter() {
    while (at_ < bytes_.size()) {
      const auto letter = static_cast<char>(bytes_[at_++]);
      if (letter != '#') return letter;
      while (at_ < bytes_.size() && bytes_[at_] != '\n' && bytes_[at_] != '\r') ++at_;
      at_ = std::min(at_ + 1, bytes_.size());
    }
    return std::nullopt;
  }
  // Reads a number, and the white space character after it.
  Expected<std::int64_t> number() {
    std::array<char, kLongestPnmNumber> digits{};
    std::size_t count = 0;
    while (const auto next = letter()) {
      const bool space = kPnmSpace.contains(*next);
      if (space && count > 0) break;
      if (space) continue;
      if (*next < '0' || *next > '9' || count == digits.size())
        return failure(ErrorCode::kCorrupt,
                       "PNM: there must be a whole number of at most 10 digits before byte {}", at_);
      digits[count++] = *next;
    }
    if (count == 0) return ends_early();
    return *parse_number<std::int64_t>(std::string_view(digits.data(), count));
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_;
};

class PnmDecoder : public RgbDecoder {
 protected:
  Expected<ImageShape> open_rgb(std::span<const std::uint8_t> bytes) override {
    bytes_ = bytes;
    kind_ = bytes[1];
    if (bytes.size() < 3) return ends_early();
    if (!kPnmSpace.contains(static_cast<char>(bytes[2])))
      return failure(ErrorCode::kCorrupt, "PNM: white space must follow P{:c}", static_cast<char>(kind_));
    PnmText text(bytes, 2);
    const auto width = text.number();
    if (!width) return std::unexpected(width.error());
    const auto height = text.number();
    if (!height) return std::unexpected(height.error());
    const Expected<std::int64_t> largest = is_bits() ? Expected<std::int64_t>(1) : text.number();
    if (!largest) return std::unexpected(largest.error());
    if (*largest < 1 || *largest > 65535)
      return failure(ErrorCode::kCorrupt, "PNM: the largest value is {}; it must be from 1 to 65535",
                     *largest);
    largest_ = static_cast<unsigned>(*largest);
    values_at_ = text.at();
    auto shape = checked_shape({.channels = 3, .height = *height, .width = *width});
    if (!shape) return shape;
    shape_ = *shape;
    if (bytes.size() - values_at_ < least_bytes()) return ends_early();
    return shape;
  }

  Status read_rgb(std::uint8_t* rgb) override {
    if (kind_ == '4') return read_bits(rgb);
    if (kind_ == '1') return read_digits(rgb);
    return is_text() ? read_numbers(rgb) : read_values(rgb);
  }

 private:
  bool is_text() const { return kind_ <= '3'; }
  bool is_bits() const { return kind_ == '1' || kind_ == '4'; }
  bool is_color() const { return kind_ == '3' || kind_ == '6'; }
  std::size_t value_count() const {
    return static_cast<std::size_t>(shape_.height * shape_.width) * (is_color() ? 3 : 1);
  }
  // Returns how many bytes the values need at least. If they are written as text, they can need more.
  std::size_t least_bytes() const {
    if (kind_ == '4') return static_cast<std::size_t>(shape_.height * ((shape_.width + 7) / 8));
    if (kind_ == '1') return value_count();
    return is_text() ? 2 * value_count() - 1 : value_count() * (largest_ < 256 ? 1 : 2);
  }
  // Scales a value to 8 bits. Gray of more than 8 bits is an exception: it is scaled to 16 bits and
  // clipped at 255.
  std::uint8_t scaled(unsigned value) const {
    const double full = !is_color() && largest_ > 255 ? 65535 : 255;
    return static_cast<std::uint8_t>(std::min(255.0, std::nearbyint(double(value) / largest_ * full)));
  }
  std::uint8_t* write(std::uint8_t value, std::uint8_t* rgb) const {
    *rgb++ = value;
    if (is_color()) return rgb;
    *rgb++ = value;
    *rgb++ = value;
    return rgb;
  }

  Status read_bits(std::uint8_t* rgb) {
    const std::uint8_t* row = bytes_.data() + values_at_;
    for (std::int64_t y = 0; y < shape_.height; ++y, row += (shape_.width + 7) / 8)
      for (std::int64_t x = 0; x < shape_.width; ++x)
        rgb = write((row[x / 8] >> (7 - x % 8) & 1) != 0 ? 0 : 255, rgb);
    return {};
  }

  Status read_digits(std::uint8_t* rgb) {
    PnmText text(bytes_, values_at_);
    for (std::size_t left = value_count(); left > 0;) {
      const auto digit = text.letter();
      if (!digit) return ends_early();
      if (kPnmSpace.contains(*digit)) continue;
      if (*digit != '0' && *digit != '1')
        return failure(ErrorCode::kCorrupt, "PNM: there must be 0 or 1 before byte {}", text.at());
      rgb = write(*digit == '1' ? 0 : 255, rgb);
      --left;
    }
    return {};
  }

  Status read_numbers(std::uint8_t* rgb) {
    PnmText text(bytes_, values_at_);
    for (std::size_t left = value_count(); left > 0; --left) {
      const auto number = text.number();
      if (!number) return std::unexpected(number.error());
      if (*number > largest_)
        return failure(ErrorCode::kCorrupt, "PNM: {} before byte {} is more than {}", *number, text.at(),
                       largest_);
      rgb = write(scaled(static_cast<unsigned>(*number)), rgb);
    }
    return {};
  }

  Status read_values(std::uint8_t* rgb) {
    const std::uint8_t* value = bytes_.data() + values_at_;
    const std::size_t count = value_count();
    if (largest_ == 255 && is_color()) {
      std::copy_n(value, count, rgb);
    } else if (largest_ < 256) {
      std::array<std::uint8_t, 256> table{};
      for (unsigned i = 0; i < table.size(); ++i) table[i] = scaled(i);
      for (std::size_t i = 0; i < count; ++i) rgb = write(table[value[i]], rgb);
    } else {
      for (std::size_t i = 0; i < count; ++i, value += 2)
        rgb = write(scaled(value[0] * 256U + value[1]), rgb);
    }
    return {};
  }

  std::span<const std::uint8_t> bytes_;
  std::uint8_t kind_ = 0;  // '1' to '6'
  unsigned largest_ = 0;
  std::size_t values_at_ = 0;
  ImageShape shape_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_pnm_decoder() {
  return std::make_unique<PnmDecoder>();
}

}  // namespace muster
