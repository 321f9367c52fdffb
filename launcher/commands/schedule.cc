// `launch schedule`: prints a pipeline schedule without running it, or checks that it is valid.
#include <algorithm>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "common/base/color.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "common/pipeline/checked_schedule.h"
#include "common/pipeline/make_schedule.h"
#include "common/pipeline/schedule_picture.h"
#include "common/pipeline/simulated_schedule.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

namespace {

constexpr auto kWrong = ErrorCode::kInvalidArgument;
constexpr std::uint64_t kMostFileBytes = 64 << 20;
constexpr std::size_t kMost = 4096;  // ranks, microbatches, chunks
constexpr std::size_t kMostMicrobatchesOfStages = 100'000;

struct ScheduleWishes {
  std::string word;
  std::string source;
  std::optional<std::size_t> stages;
  std::optional<std::size_t> microbatches;
  std::optional<std::size_t> chunks;
  StageTimes times;  // of all stages of a rank together
  bool json = false;
  bool csv = false;
};

Expected<StageTimes> times_from(const std::string& text) {
  const auto parts = split(text, ',');
  std::vector<double> numbers;
  for (const std::string_view part : parts) {
    const auto number = parse_number<double>(part);
    if (number && std::isfinite(*number) && *number >= 0) numbers.push_back(*number);
  }
  if (parts.size() != 3 || numbers.size() != 3 || numbers[0] <= 0)
    return failure(
        kWrong,
        "--times {}: give three numbers (forward, backward of the input, backward of the weights), "
        "as in --times 1,1,1",
        text);
  return StageTimes{.forward = numbers[0], .input = numbers[1], .weight = numbers[2]};
}

Expected<ScheduleWishes> schedule_wishes_of(const CommandArguments& arguments) {
  if (arguments.operands.size() < 2)
    return failure(kWrong,
                   "schedule: say what to do, and with which schedule: `launch schedule show 1F1B` or "
                   "`launch schedule check FILE.csv`");
  ScheduleWishes wishes{.word = arguments.operands[0],
                        .source = arguments.operands[1],
                        .stages = {},
                        .microbatches = {},
                        .chunks = {},
                        .times = {}};
  if (wishes.word != "show" && wishes.word != "check")
    return failure(kWrong, "schedule: {} is neither show nor check", wishes.word);
  const auto take = [&](std::optional<std::size_t>& number, std::string_view flag) -> Status {
    const auto count = arguments.count(flag, flag);
    if (!count) return std::unexpected(count.error());
    if (*count && (**count == 0 || **count > kMost))
      return failure(kWrong, "--{} {}: give a number from 1 to {}", flag, **count, kMost);
    number = *count;
    return {};
  };
  if (Status good = take(wishes.stages, "stages"); !good) return std::unexpected(good.error());
  if (Status good = take(wishes.microbatches, "microbatches"); !good) return std::unexpected(good.error());
  if (Status good = take(wishes.chunks, "chunks"); !good) return std::unexpected(good.error());
  if (arguments.has("times")) {
    auto times = times_from(arguments.value("times"));
    if (!times) return std::unexpected(times.error());
    wishes.times = *times;
  }
  wishes.json = arguments.has("json");
  wishes.csv = arguments.has("csv");
  if (wishes.json && wishes.csv)
    return failure(kWrong, "--json and --csv both go to stdout: give one of them");
  return wishes;
}

Expected<Schedule> from_file(const ScheduleWishes& wishes) {
  const auto bytes = read_regular_file(wishes.source, kMostFileBytes);
  if (!bytes) return std::unexpected(bytes.error());
  auto schedule = parse_schedule(*bytes);
  if (!schedule) return failure_within(wishes.source, std::move(schedule));
  schedule->name = wishes.source;
  return schedule;
}

// Checks whether a schedule that was read from a file fits the flags. If microbatches are missing,
// check_schedule() finds this.
Status fit(Schedule& schedule, const ScheduleWishes& wishes) {
  const std::size_t ranks = schedule.ranks.size();
  if (wishes.stages && *wishes.stages != ranks)
    return failure(kWrong, "it has {} ranks, not {}", ranks, *wishes.stages);
  if (wishes.chunks && static_cast<std::size_t>(schedule.stages) != ranks * *wishes.chunks)
    return failure(kWrong, "it has {} stages on {} ranks, not {} on each", schedule.stages, ranks,
                   *wishes.chunks);
  if (wishes.microbatches) schedule.microbatches = static_cast<int>(*wishes.microbatches);
  return {};
}

Expected<Schedule> by_name(const ScheduleWishes& wishes) {
  if (!find_schedule_name(wishes.source))
    return make_schedule(wishes.source, {});  // its error lists the names
  for (const auto& [number, flag] :
       {std::pair(wishes.stages, "--stages"), std::pair(wishes.microbatches, "--microbatches")})
    if (!number)
      return failure(kWrong, "{} is missing: {} needs --stages P and --microbatches M", flag, wishes.source);
  const std::size_t instructions = *wishes.stages * *wishes.microbatches * wishes.chunks.value_or(1);
  if (instructions > kMostMicrobatchesOfStages)
    return failure(kWrong, "{} ranks with {} microbatches: stages times microbatches may be at most {}",
                   *wishes.stages, *wishes.microbatches, kMostMicrobatchesOfStages);
  ScheduleRequest request{.ranks = static_cast<int>(*wishes.stages),
                          .microbatches = static_cast<int>(*wishes.microbatches),
                          .chunks = {}};
  if (wishes.chunks) request.chunks = static_cast<int>(*wishes.chunks);
  return make_schedule(wishes.source, request);
}

// Returns whether the user means a file. This is so if the word has a slash or ends with .csv, or if a file
// has this name.
bool means_file(const std::string& source) {
  return source.ends_with(".csv") || source.contains('/') ||
         (!find_schedule_name(source) && access(source.c_str(), F_OK) == 0);
}

// A rank's chunks share its times.
std::vector<StageTimes> times_of_stages(const Schedule& schedule, const StageTimes& of_rank) {
  std::vector<int> chunks(schedule.ranks.size());
  const auto ranks = ranks_of_stages(schedule);
  for (const int rank : ranks) ++chunks[static_cast<std::size_t>(rank)];
  std::vector<StageTimes> times;
  for (const int rank : ranks) {
    const double part = 1.0 / chunks[static_cast<std::size_t>(rank)];
    times.push_back({of_rank.forward * part, of_rank.input * part, of_rank.weight * part});
  }
  return times;
}

std::string as_json(const Schedule& schedule, const ScheduleWishes& wishes,
                    const SimulatedSchedule& simulated) {
  nlohmann::ordered_json instructions = nlohmann::ordered_json::array();
  for (const auto& order : schedule.ranks) instructions.push_back(texts_of(order));
  const nlohmann::ordered_json document{
      {"schedule", schedule.name},
      {"stages", schedule.ranks.size()},
      {"chunks", static_cast<std::size_t>(schedule.stages) / schedule.ranks.size()},
      {"microbatches", schedule.microbatches},
      {"times", {wishes.times.forward, wishes.times.input, wishes.times.weight}},
      {"makespan", simulated.makespan},
      {"bubble_fraction", simulated.bubble_fraction},
      {"peak_activations", simulated.peak_activations},
      {"instructions", std::move(instructions)}};
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string as_text(const Schedule& schedule, const SimulatedSchedule& simulated) {
  const bool color = isatty(STDOUT_FILENO) != 0 && colors_wanted();
  const bool one_stage_a_rank = schedule.stages == static_cast<int>(schedule.ranks.size());
  std::string text = schedule_picture(simulated.ranks, one_stage_a_rank, {.color = color});
  text += fmt::format("{}: {} ranks, {} stages, {} microbatches\n", schedule.name, schedule.ranks.size(),
                      schedule.stages, schedule.microbatches);
  text += fmt::format("makespan          {:.6g}\n", simulated.makespan);
  text += fmt::format("bubble            {:.1f} % of all ranks' time\n", 100 * simulated.bubble_fraction);
  text += fmt::format("peak activations  {} (by rank, of {})\n", fmt::join(simulated.peak_activations, " "),
                      one_stage_a_rank ? "microbatches" : "one microbatch in one chunk each");
  return text;
}

}  // namespace

int schedule(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto wishes = schedule_wishes_of(*arguments);
  if (!wishes) return refuse(wishes.error(), kExitUsage);
  const bool is_file = means_file(wishes->source);
  auto schedule = is_file ? from_file(*wishes) : by_name(*wishes);
  if (!schedule) return refuse(schedule.error(), kExitUsage);
  Status good = is_file ? fit(*schedule, *wishes) : Status();
  if (good) good = check_schedule(*schedule);
  if (!good) return refuse(std::move(good).error().within(schedule->name), 1);
  if (wishes->csv) return print(schedule_as_csv(*schedule));
  const auto simulated = simulate_schedule(*schedule, times_of_stages(*schedule, wishes->times));
  if (wishes->json) return print(as_json(*schedule, *wishes, simulated));
  if (wishes->word == "show") return print(as_text(*schedule, simulated));
  return print(fmt::format("{}: valid: {} ranks, {} stages, {} microbatches\n", schedule->name,
                           schedule->ranks.size(), schedule->stages, schedule->microbatches));
}

}  // namespace muster::launcher
