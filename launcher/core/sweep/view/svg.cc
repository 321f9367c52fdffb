#include "launcher/core/sweep/view/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "common/base/text.h"

namespace muster::launcher::sweep {

namespace {

// Whether the text begins with U+FFFE or U+FFFF. UTF-8 can encode these two code points, but XML 1.0 forbids
// them.
bool is_noncharacter(std::string_view text) {
  return text.starts_with("\xEF\xBF\xBE") || text.starts_with("\xEF\xBF\xBF");
}

std::vector<double> powers_of_ten(double low, double high) {
  std::vector<double> ticks;
  const double first = std::ceil(std::log10(low) - 1e-9);
  const double last = std::floor(std::log10(high) + 1e-9);
  const double stride = std::max(1.0, std::ceil((last - first) / 6));
  for (double power = first; power <= last; power += stride) ticks.push_back(std::pow(10, power));
  return ticks;
}

// Returns round numbers between `low` and `high`. They are multiples of 1, 2 or 5 times a power of ten.
std::vector<double> round_numbers(double low, double high) {
  constexpr double kWanted = 5;
  const double rough = (high - low) / kWanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double part = rough / power;
  const double step = power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
  std::vector<double> ticks;
  const double last = std::floor(high / step + 1e-9);
  for (double i = std::ceil(low / step - 1e-9); i <= last && ticks.size() < 2 * kWanted; ++i)
    ticks.push_back(i * step + 0.0);  // never -0
  return ticks;
}

}  // namespace

std::string xml_text(std::string_view text) {
  const bool readable = is_utf8(text);
  std::string safe;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    const auto byte = static_cast<unsigned char>(letter);
    if (is_noncharacter(text.substr(at))) {
      safe += '?';
      at += 2;
    } else if (letter == '&') {
      safe += "&amp;";
    } else if (letter == '<') {
      safe += "&lt;";
    } else if (letter == '>') {
      safe += "&gt;";
    } else if (letter == '"') {
      safe += "&quot;";
    } else {
      safe += byte < ' ' || byte == 0x7F || (byte > 0x7F && !readable) ? '?' : letter;
    }
  }
  return safe;
}

Svg::Svg(double width, double height, std::string_view title)
    : body_(fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" )"
                        R"(width="{0:.0f}" height="{1:.0f}" font-family="sans-serif" font-size="12">)"
                        "\n<title>{2}</title>\n"
                        R"(<rect width="{0:.0f}" height="{1:.0f}" fill="#ffffff"/>)"
                        "\n",
                        width, height, xml_text(title))) {}

void Svg::shape(std::string_view name, std::string_view attributes, std::string_view tip) {
  if (tip.empty())
    body_ += fmt::format("<{} {}/>\n", name, attributes);
  else
    body_ += fmt::format("<{0} {1}><title>{2}</title></{0}>\n", name, attributes, xml_text(tip));
}

void Svg::line(Spot from, Spot to, std::string_view style) {
  shape(
      "line",
      fmt::format(R"(x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" {})", from.x, from.y, to.x, to.y, style),
      {});
}

void Svg::path(const std::vector<Spot>& spots, std::string_view style, std::string_view tip) {
  std::string points;
  for (const Spot& spot : spots)
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", spot.x, spot.y);
  shape("polyline", fmt::format(R"(points="{}" fill="none" {})", points, style), tip);
}

void Svg::circle(Spot center, double radius, std::string_view style, std::string_view tip) {
  shape("circle", fmt::format(R"(cx="{:.1f}" cy="{:.1f}" r="{:.1f}" {})", center.x, center.y, radius, style),
        tip);
}

void Svg::text(Spot at, std::string_view anchor, std::string_view text, std::string_view style) {
  body_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}{}>{}</text>)", at.x, at.y, anchor,
                       style.empty() ? "" : " ", style, xml_text(text)) +
           "\n";
}

std::string Svg::finish() && {
  return std::move(body_) + "</svg>\n";
}

Scale::Scale(const std::vector<double>& values) {
  constexpr double kThousandfold = 1000;
  const auto [low, high] = std::ranges::minmax(values);
  low_ = low;
  high_ = high;
  logarithmic_ = low > 0 && high / low >= kThousandfold;
}

double Scale::position(double value) const {
  // A difference of two huge numbers may be infinite, and so may a quotient. So this function subtracts
  // halves of the numbers, or their logarithms.
  const double range = logarithmic_ ? std::log(high_) - std::log(low_) : high_ / 2 - low_ / 2;
  if (!(range > 0)) return 0.5;
  return std::clamp((logarithmic_ ? std::log(value) - std::log(low_) : value / 2 - low_ / 2) / range, 0.0,
                    1.0);
}

std::vector<double> Scale::ticks() const {
  std::vector<double> ticks;
  if (logarithmic_)
    ticks = powers_of_ten(low_, high_);
  else if (high_ > low_ && std::isfinite(high_ - low_))
    ticks = round_numbers(low_, high_);
  if (ticks.size() < 2) ticks = low_ < high_ ? std::vector{low_, high_} : std::vector{low_};
  return ticks;
}

std::string cividis(double position) {
  // The map's colours at 0, 1/8, 2/8, ..., 1.
  static constexpr std::array<std::array<double, 3>, 9> kColors = {{{0, 34, 78},
                                                                    {26, 56, 111},
                                                                    {67, 78, 108},
                                                                    {97, 101, 111},
                                                                    {125, 124, 120},
                                                                    {155, 148, 119},
                                                                    {188, 174, 108},
                                                                    {222, 202, 86},
                                                                    {254, 232, 56}}};
  const double place = std::clamp(position, 0.0, 1.0) * static_cast<double>(kColors.size() - 1);
  const auto index = std::min(static_cast<std::size_t>(place), kColors.size() - 2);
  const double part = place - static_cast<double>(index);
  std::array<int, 3> mixed = {};
  for (std::size_t i = 0; i < mixed.size(); ++i)
    mixed[i] = static_cast<int>(std::lround(std::lerp(kColors[index][i], kColors[index + 1][i], part)));
  return fmt::format("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2]);
}

}  // namespace muster::launcher::sweep
