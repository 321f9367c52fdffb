#include "launcher/core/sweep/view/pictures.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/core/sweep/search/axis.h"
#include "launcher/core/sweep/view/best.h"
#include "launcher/core/sweep/view/svg.h"

namespace muster::launcher::sweep {

namespace {

constexpr double kTop = 56;
constexpr double kHeight = 420;
constexpr double kBottom = kHeight - 56;
constexpr double kLeft = 88;
constexpr const char* kAxisStyle = R"(stroke="#444444")";
constexpr const char* kGridStyle = R"(stroke="#dddddd")";
constexpr const char* kHeadStyle = R"(font-weight="bold")";
constexpr std::string_view kNoTrials = "no trial has a value yet";
// The blue and the vermillion of the palette by Okabe and Ito.
constexpr const char* kFull = R"(fill="#0072b2")";
constexpr const char* kHollow = R"(fill="none" stroke="#d55e00" stroke-width="1.5")";

double height_of(double position) {
  return kBottom - position * (kBottom - kTop);
}

std::string number_text(double number) {
  return fmt::format("{:.4g}", number);
}

// Returns the text, but cuts it if it is long. A long name would cover the next axis.
std::string label(const std::string& text) {
  constexpr std::size_t kMost = 16;
  return text.size() <= kMost ? text : std::string(beginning_of(text, kMost - 2)) + "..";
}

std::string tip_of(const Trial& trial, const Objective& objective, double value) {
  std::string text = fmt::format("trial {}: {} {}", trial.number, objective.metric, value);
  for (const auto& [name, each] : trial.point) text += fmt::format(", {}={}", name, text_of(each));
  return text;
}

struct Shown {
  const Trial* trial;
  double value;
};

std::vector<Shown> shown_trials(const History& history, const Objective& objective) {
  std::vector<Shown> shown;
  for (const Trial& trial : history.trials()) {
    if (const auto value = judged_value(trial, objective.metric)) shown.push_back({&trial, *value});
  }
  return shown;
}

Scale scale_of(const std::vector<Shown>& shown) {
  std::vector<double> values;
  for (const Shown& each : shown) values.push_back(each.value);
  return Scale(values);
}

// Returns the position on the picture's axis. The coordinate of a choice is its number, so the choices have
// to be spread over the axis.
double spread(const Axis& axis, double coordinate) {
  return axis.is_choice() ? (coordinate + 0.5) / static_cast<double>(axis.value_count()) : coordinate;
}

struct Tick {
  double position;
  std::string text;
};

std::vector<Tick> ticks_of(const Axis& axis) {
  const Parameter& parameter = axis.parameter();
  std::vector<Tick> ticks;
  if (axis.is_choice()) {
    for (std::size_t i = 0; i < parameter.choices.size(); ++i)
      ticks.push_back({spread(axis, static_cast<double>(i)), label(text_of(parameter.choices[i]))});
    return ticks;
  }
  // A normal distribution has no ends. So its ticks cover nearly all of it, but not all.
  const double margin = parameter.kind == Parameter::Kind::kNormal ? 0.001 : 0;
  for (const double wanted : {margin, 0.25, 0.5, 0.75, 1 - margin}) {
    const bool is_given = !axis.has_cells() && margin == 0 && (wanted == 0 || wanted == 1);
    const Value value = is_given ? Value(wanted == 0 ? parameter.low : parameter.high) : axis.value(wanted);
    const auto position = axis.coordinate_in({{parameter.name, value}});
    const auto* real = std::get_if<double>(&value);
    const std::string text = real == nullptr ? text_of(value) : number_text(*real);
    if (position && (ticks.empty() || ticks.back().text != text)) ticks.push_back({*position, text});
  }
  return ticks;
}

void draw_axis(Svg& svg, double x, const std::string& name, const std::vector<Tick>& ticks) {
  svg.line({x, kTop}, {x, kBottom}, kAxisStyle);
  svg.text({x, kTop - 20}, "middle", label(name), kHeadStyle);
  for (const Tick& tick : ticks) {
    const double y = height_of(tick.position);
    svg.line({x - 4, y}, {x, y}, kAxisStyle);
    // A white edge keeps the text readable where lines cross it. The text is drawn twice, first with the edge
    // and then without it, because not all programs know `paint-order`.
    svg.text({x - 7, y + 4}, "end", tick.text, R"(stroke="#ffffff" stroke-width="4" fill="#ffffff")");
    svg.text({x - 7, y + 4}, "end", tick.text);
  }
}

std::vector<Tick> ticks_of(const Scale& scale) {
  std::vector<Tick> ticks;
  for (const double tick : scale.ticks()) ticks.push_back({scale.position(tick), number_text(tick)});
  return ticks;
}

class Coordinates {
 public:
  Coordinates(const Space& space, std::vector<Shown> shown, const Objective& objective)
      : shown_(std::move(shown)), objective_(objective), scale_(scale_of(shown_)) {
    for (const Parameter& parameter : space.parameters) {
      const Axis axis(parameter);
      if (!axis.is_fixed()) axes_.push_back(axis);
    }
    // Better trials are drawn later, on top of the others.
    std::ranges::sort(shown_, [&](const Shown& one, const Shown& other) {
      if (one.value != other.value) return is_better(objective.mode, other.value, one.value);
      return one.trial->number > other.trial->number;
    });
  }

  std::string drawn() const {
    Svg svg(x_of(axes_.size()) + kLeft, kHeight, "parameters and " + objective_.metric + " of each trial");
    for (const Shown& each : shown_) draw(svg, each);
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      draw_axis(svg, x_of(i), axes_[i].parameter().name, ticks_of(axes_[i]));
      if (lacks(axes_[i])) svg.text({x_of(i) - 7, kBelow + 4}, "end", "none");
    }
    draw_axis(svg, x_of(axes_.size()), objective_.metric, ticks_of(scale_));
    svg.text({kLeft, kHeight - 8}, "start",
             fmt::format("{} trials; dark: {} {}", shown_.size(),
                         objective_.mode == Mode::kMin ? "low" : "high", objective_.metric));
    return std::move(svg).finish();
  }

 private:
  static constexpr double kBetween = 130;
  static constexpr double kBelow = kBottom + 20;

  static double x_of(std::size_t axis) { return kLeft + static_cast<double>(axis) * kBetween; }
  bool lacks(const Axis& axis) const {
    return std::ranges::any_of(shown_,
                               [&](const Shown& each) { return !axis.coordinate_in(each.trial->point); });
  }
  void draw(Svg& svg, const Shown& shown) const {
    std::vector<Spot> spots;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const auto at = axes_[i].coordinate_in(shown.trial->point);
      spots.push_back({x_of(i), at ? height_of(spread(axes_[i], *at)) : kBelow});
    }
    const double place = scale_.position(shown.value);
    spots.push_back({x_of(axes_.size()), height_of(place)});
    const bool best = &shown == &shown_.back();
    svg.path(spots,
             fmt::format(R"(stroke="{}" stroke-width="{}" stroke-opacity="{}")",
                         cividis(objective_.mode == Mode::kMin ? place : 1 - place), best ? 4 : 1.5,
                         best ? 1 : 0.7),
             tip_of(*shown.trial, objective_, shown.value));
  }

  std::vector<Shown> shown_;
  const Objective& objective_;
  Scale scale_;
  std::vector<Axis> axes_;
};

std::string empty_picture(std::string_view title) {
  Svg svg(kHeight, kTop, title);
  svg.text({kHeight / 2, kTop / 2}, "middle", kNoTrials);
  return std::move(svg).finish();
}

class Course {
 public:
  static constexpr double kWidth = 760;
  static constexpr double kRight = kWidth - 24;

  Course(const History& history, std::vector<Shown> shown, const Objective& objective)
      : history_(history), shown_(std::move(shown)), objective_(objective), scale_(scale_of(shown_)) {}

  std::string drawn() const {
    Svg svg(kWidth, kHeight, "the best " + objective_.metric + " after each trial");
    draw_frame(svg);
    draw_best(svg);
    for (const Trial& trial : history_.trials()) draw(svg, trial);
    draw_legend(svg);
    return std::move(svg).finish();
  }

 private:
  double x_of(std::int32_t trial) const {
    const auto last = static_cast<double>(std::max<std::size_t>(history_.trials().size(), 2) - 1);
    return kLeft + 8 + trial / last * (kRight - kLeft - 16);
  }
  Spot spot_of(const Shown& shown) const {
    return {x_of(shown.trial->number), height_of(scale_.position(shown.value))};
  }

  void draw_frame(Svg& svg) const {
    for (const Tick& tick : ticks_of(scale_)) {
      const double y = height_of(tick.position);
      svg.line({kLeft, y}, {kRight, y}, kGridStyle);
      svg.text({kLeft - 7, y + 4}, "end", tick.text);
    }
    const double floor = kBottom + 12;
    svg.line({kLeft, kTop}, {kLeft, floor}, kAxisStyle);
    svg.line({kLeft, floor}, {kRight, floor}, kAxisStyle);
    const auto last = static_cast<double>(history_.trials().size()) - 1;
    for (const double tick : Scale({0, last}).ticks()) {
      if (tick != static_cast<double>(static_cast<std::int32_t>(tick))) continue;
      svg.text({x_of(static_cast<std::int32_t>(tick)), floor + 18}, "middle", number_text(tick));
    }
    svg.text({(kLeft + kRight) / 2, kHeight - 8}, "middle", "trial", kHeadStyle);
    svg.text({kLeft, kTop - 34}, "start",
             objective_.metric + (scale_.is_logarithmic() ? " (logarithmic)" : ""), kHeadStyle);
  }

  // Draws the best value so far as a line of steps. The line stays level until a trial improves the value.
  void draw_best(Svg& svg) const {
    std::vector<Spot> spots;
    const Shown* best = nullptr;
    for (const Shown& each : shown_) {
      if (best != nullptr && !is_better(objective_.mode, each.value, best->value)) continue;
      if (best != nullptr) spots.push_back({spot_of(each).x, spot_of(*best).y});
      spots.push_back(spot_of(each));
      best = &each;
    }
    spots.push_back({x_of(static_cast<std::int32_t>(history_.trials().size()) - 1), spots.back().y});
    svg.path(spots, R"(stroke="#000000" stroke-width="2")",
             fmt::format("best: trial {}, {}", best->trial->number, best->value));
  }

  void draw(Svg& svg, const Trial& trial) const {
    constexpr double kRadius = 4;
    const auto value = judged_value(trial, objective_.metric);
    if (value) {
      svg.circle(spot_of({&trial, *value}), kRadius, trial.state == TrialState::kFinished ? kFull : kHollow,
                 fmt::format("{} ({})", tip_of(trial, objective_, *value), name_of(trial.state)));
    } else if (trial.is_over()) {
      draw_cross(svg, {x_of(trial.number), kBottom + 12});
    }
  }

  static void draw_cross(Svg& svg, Spot at) {
    constexpr double kArm = 3.5;
    constexpr const char* kStyle = R"(stroke="#444444" stroke-width="1.5")";
    svg.line({at.x - kArm, at.y - kArm}, {at.x + kArm, at.y + kArm}, kStyle);
    svg.line({at.x - kArm, at.y + kArm}, {at.x + kArm, at.y - kArm}, kStyle);
  }

  static void draw_legend(Svg& svg) {
    constexpr double kY = kTop - 16;
    svg.line({kLeft, kY}, {kLeft + 24, kY}, R"(stroke="#000000" stroke-width="2")");
    svg.text({kLeft + 30, kY + 4}, "start", "best so far");
    svg.circle({kLeft + 132, kY}, 4, kFull);
    svg.text({kLeft + 142, kY + 4}, "start", "finished");
    svg.circle({kLeft + 222, kY}, 4, kHollow);
    svg.text({kLeft + 232, kY + 4}, "start", "not finished");
    draw_cross(svg, {kLeft + 332, kY});
    svg.text({kLeft + 342, kY + 4}, "start", "failed, or no value");
  }

  const History& history_;
  std::vector<Shown> shown_;
  const Objective& objective_;
  Scale scale_;
};

}  // namespace

std::string parallel_coordinates(const Space& space, const History& history, const Objective& objective) {
  auto shown = shown_trials(history, objective);
  if (shown.empty()) return empty_picture("parameters of each trial");
  return Coordinates(space, std::move(shown), objective).drawn();
}

std::string course_of_best(const History& history, const Objective& objective) {
  auto shown = shown_trials(history, objective);
  if (shown.empty()) return empty_picture("the best value after each trial");
  return Course(history, std::move(shown), objective).drawn();
}

}  // namespace muster::launcher::sweep
