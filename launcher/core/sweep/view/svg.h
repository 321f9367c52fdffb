// Writes SVG: the few shapes that pictures.cc draws, and scales with their ticks.
//
// Texts may have any bytes: those that XML does not allow become question marks. Coordinates are pixels from
// the upper left corner. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher::sweep {

std::string xml_text(std::string_view text);

struct Spot {
  double x = 0;
  double y = 0;
};

class Svg {
 public:
  // `title`: for screen readers, and shown by browsers.
  Svg(double width, double height, std::string_view title);

  // `style`: attributes such as `stroke="#000" fill="none"`. `tip`: shown while the mouse is over the shape.
  void line(Spot from, Spot to, std::string_view style);
  void path(const std::vector<Spot>& spots, std::string_view style, std::string_view tip = {});
  void circle(Spot center, double radius, std::string_view style, std::string_view tip = {});
  // `anchor`: start, middle or end.
  void text(Spot at, std::string_view anchor, std::string_view text, std::string_view style = {});
  std::string finish() &&;

 private:
  void shape(std::string_view name, std::string_view attributes, std::string_view tip);
  std::string body_;
};

// Maps values to [0, 1]: linearly, or by their logarithm if they are positive and differ a thousandfold.
class Scale {
 public:
  // `values`: finite, at least one.
  explicit Scale(const std::vector<double>& values);
  double position(double value) const;
  bool is_logarithmic() const { return logarithmic_; }
  // Round numbers within the range, about five; at least the range's ends.
  std::vector<double> ticks() const;

 private:
  double low_ = 0;
  double high_ = 1;
  bool logarithmic_ = false;
};

// "#00224e" (dark blue) for 0 to "#fee838" (yellow) for 1, over grey: the map cividis, which people with any
// colour vision read alike (Nuñez, Anderton and Renslow 2018).
std::string cividis(double position);

}  // namespace muster::launcher::sweep
