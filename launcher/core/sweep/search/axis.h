// A parameter as the models of TPE and BOHB see it: a coordinate in which the parameter's own distribution is
// uniform.
//
// The coordinate of a number is in [0, 1]. For a logarithmic parameter it is linear in the logarithm of the
// value. For a parameter with a normal distribution it is the quantile of the value. A parameter with steps
// divides [0, 1] into cells, one for each value. The coordinate of a value lies in the value's cell. The
// coordinate of a choice is its number. Pure.
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

  // Returns the coordinate of the point. Returns nullopt if the point lacks the parameter, or has a value
  // that the parameter cannot have.
  std::optional<double> coordinate_in(const Point& point) const;
  Value value(double coordinate) const;
  // If the parameter has cells, returns the middle of the cell at `coordinate`. Otherwise returns
  // `coordinate` itself.
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
