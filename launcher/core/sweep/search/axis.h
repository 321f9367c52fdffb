// A parameter as the models of TPE and BOHB see it: a coordinate in which the parameter's own distribution is
// uniform.
//
// A number's coordinate is in [0, 1]. It is linear in the logarithm of a logarithmic parameter, and is the
// quantile of a normally distributed one. A parameter with steps cuts [0, 1] into one cell for each value,
// and a value's coordinate lies within its cell. A choice's coordinate is its number. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep {

class Axis {
 public:
  // The space must outlive the axis.
  explicit Axis(const Parameter& parameter);

  const Parameter& parameter() const { return *parameter_; }
  bool is_fixed() const { return value_count_ == 1; }
  bool is_choice() const;
  bool has_cells() const { return value_count_ > 0 && !is_choice(); }
  std::uint64_t value_count() const { return value_count_; }  // 0: infinitely many

  // nullopt: the point lacks the parameter, or its value is none that the parameter can have.
  std::optional<double> coordinate_in(const Point& point) const;
  Value value(double coordinate) const;
  // Returns the middle of the cell at `coordinate`, or `coordinate` itself if the parameter has no cells.
  double snapped(double coordinate) const;
  struct Cell {
    double low = 0;
    double high = 0;
  };
  Cell cell(double coordinate) const;  // of a parameter that has cells

 private:
  std::optional<double> coordinate(const Value& value) const;
  std::uint64_t index_at(double coordinate) const;
  double edge(double index) const;
  double middle(std::uint64_t index) const;

  const Parameter* parameter_;
  std::uint64_t value_count_;
  double log_low_ = 0;  // of the logarithmic kinds: of the range that the coordinate covers
  double log_span_ = 0;
};

}  // namespace muster::launcher::sweep
