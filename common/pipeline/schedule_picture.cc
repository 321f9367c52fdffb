#include "common/pipeline/schedule_picture.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace muster {

namespace {

int color_of(Op op) {
  constexpr int kGreen = 32, kBlue = 34, kMagenta = 35, kCyan = 36;
  switch (op) {
    case Op::kForward: return kBlue;
    case Op::kBackwardInput: return kCyan;
    case Op::kBackwardWeight: return kMagenta;
    default: return kGreen;
  }
}

class Picture {
 public:
  Picture(const std::vector<std::vector<TimedInstruction>>& ranks, bool one_stage_a_rank,
          const PictureOptions& options)
      : ranks_(ranks), one_stage_(one_stage_a_rank), color_(options.color) {
    double makespan = 0;
    std::size_t width = 0;  // of the longest name plus a blank
    for (const auto& rank : ranks) {
      for (const TimedInstruction& each : rank) {
        const double duration = each.end - each.begin;
        if (duration > 0) shortest_ = shortest_ == 0 ? duration : std::min(shortest_, duration);
        makespan = std::max(makespan, each.end);
        width = std::max(width, name_of(each.instruction).size() + 1);
      }
    }
    // The shortest instruction decides the scale. Without a limit, one very short instruction would make the
    // picture very wide.
    constexpr double kMostColumns = 4000;
    shortest_ = std::max(shortest_, makespan / kMostColumns);
    if (shortest_ == 0) shortest_ = 1;
    columns_a_time_ = static_cast<double>(width) / shortest_;
    if (options.columns && makespan > 0)
      columns_a_time_ = std::min(columns_a_time_, static_cast<double>(*options.columns) / makespan);
  }

  std::string text() const {
    std::string text;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) text += line(rank);
    return text;
  }

 private:
  std::string name_of(const Instruction& instruction) const {
    const std::string text = text_of(instruction);
    return one_stage_ ? text.substr(text.find_first_not_of("0123456789")) : text;
  }
  std::size_t place_of(double time) const {
    return static_cast<std::size_t>(std::llround(time * columns_a_time_));
  }
  std::string line(std::size_t rank) const {
    std::string text = fmt::format("rank {:<{}}  ", rank, fmt::formatted_size("{}", ranks_.size() - 1));
    std::size_t at = 0;
    for (const TimedInstruction& each : ranks_[rank]) {
      const std::size_t begin = place_of(each.begin);
      const std::size_t end = place_of(each.end);
      if (end <= at) continue;  // the instruction gets no room
      text += std::string(std::max(begin, at) - at, ' ');
      std::string label = name_of(each.instruction);
      label.resize(std::max(end - std::max(begin, at), std::size_t{1}),
                   each.end - each.begin > 1.5 * shortest_ ? '-' : ' ');
      if (label.size() > 1) label.back() = ' ';
      text += color_ ? fmt::format("\x1b[{}m{}\x1b[0m", color_of(each.instruction.op), label) : label;
      at = end;
    }
    while (text.ends_with(' ')) text.pop_back();
    return text + "\n";
  }

  const std::vector<std::vector<TimedInstruction>>& ranks_;
  bool one_stage_;
  bool color_;
  double shortest_ = 0;
  double columns_a_time_ = 1;
};

}  // namespace

std::string schedule_picture(const std::vector<std::vector<TimedInstruction>>& ranks, bool one_stage_a_rank,
                             const PictureOptions& options) {
  return Picture(ranks, one_stage_a_rank, options).text();
}

}  // namespace muster
