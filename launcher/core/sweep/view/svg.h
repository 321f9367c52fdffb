// Writes pictures in the format SVG. This file has the few shapes that pictures.cc needs. It also has the
// class Scale, which places values and ticks on an axis.
//
// Texts may contain any bytes. Bytes that XML does not allow become question marks. Coordinates are pixels
// from the upper left corner. Pure.
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
  // `title` is the text that browsers show, and that screen readers read out.
  Svg(double width, double height, std::string_view title);

  // `style` has attributes such as `stroke="#000" fill="none"`. `tip` is shown while the mouse is over the
  // shape.
  void line(Spot from, Spot to, std::string_view style);
  void path(const std::vector<Spot>& spots, std::string_view style, std::string_view tip = {});
  void circle(Spot center, double radius, std::string_view style, std::string_view tip = {});
  // Writes text. `anchor` is "start", "middle" or "end".
  void text(Spot at, std::string_view anchor, std::string_view text, std::string_view style = {});
  std::string finish() &&;

 private:
  void shape(std::string_view name, std::string_view attributes, std::string_view tip);
  std::string body_;
};

// Maps values to [0, 1]. Usually the map is linear. If all values are positive, and the largest is at least a
// thousand times the smallest, it is linear in their logarithms.
class Scale {
 public:
  // There must be at least one value. All values must be finite.
  explicit Scale(const std::vector<double>& values);
  double position(double value) const;
  bool is_logarithmic() const { return logarithmic_; }
  // Returns about five round numbers in the range. If the range contains fewer than two of them, returns its
  // ends.
  std::vector<double> ticks() const;

 private:
  double low_ = 0;
  double high_ = 1;
  bool logarithmic_ = false;
};

// Returns the colour for a position from 0 to 1. It goes from "#00224e" (dark blue) over grey to "#fee838"
// (yellow). This is the colour map cividis, which looks alike to people with any kind of colour vision
// (Nuñez, Anderton and Renslow 2018).
std::string cividis(double position);

}  // namespace muster::launcher::sweep
