#include <algorithm>
#include <fmt/ranges.h>
#include <muster/pipeline/pipeline_split.h>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "common/pipeline/make_schedule.h"
#include "common/pipeline/partition.h"
#include "runtime/model/numbers.h"

namespace muster {

namespace {

template <class Value>
Value value_or_throw(Expected<Value> value) {
  if (!value) throw std::invalid_argument("split_layers: " + value.error().message());
  return *std::move(value);
}

std::vector<LayerCost> costs_of(const std::vector<LayerProfile>& profile) {
  std::vector<LayerCost> costs;
  for (const LayerProfile& each : profile)
    costs.push_back({.times = {each.forward, each.input, each.weight},
                     .parameter_bytes = each.parameter_bytes,
                     .activation_bytes = each.activation_bytes,
                     .input_bytes = each.input_bytes});
  return costs;
}

bool has_times(const std::vector<LayerProfile>& profile) {
  return std::ranges::any_of(profile, [](const LayerProfile& each) { return each.forward > 0; });
}

Partition cut(const std::vector<LayerProfile>& profile, const std::vector<LayerCost>& costs,
              const Schedule& schedule, const SplitOptions& options) {
  if (!options.first_layers.empty()) {
    const Status good =
        check_partition(options.first_layers, static_cast<int>(costs.size()), schedule.stages);
    if (!good) throw std::invalid_argument("split_layers: " + good.error().message());
    const auto memory = memory_of_ranks(costs, options.first_layers, schedule, options.parameter_copies);
    const auto most = std::ranges::max_element(memory);
    if (options.memory_bytes && *most > static_cast<double>(*options.memory_bytes))
      throw std::invalid_argument(
          fmt::format("split_layers: memory_bytes is {}, but rank {} needs {:.0f} with these first layers",
                      *options.memory_bytes, most - memory.begin(), *most));
    return options.first_layers;
  }
  const auto by = find_partition_name(options.by);
  if (!by)
    throw std::invalid_argument(
        fmt::format("split_layers: by is '{}'; it must be 'uniform', 'parameters' or 'profile'", options.by));
  if (*by == PartitionBy::kProfile && !has_times(profile))
    throw std::invalid_argument(
        "split_layers: by 'profile' needs the times of a microbatch, which profile_layers() measures");
  const PartitionLimits limits{.memory_bytes = options.memory_bytes,
                               .parameter_copies = options.parameter_copies};
  return value_or_throw(*by == PartitionBy::kProfile ? shortest_partition(costs, schedule, limits)
                                                     : partition_layers(*by, costs, schedule, limits));
}

StageSplit sum_of(const std::vector<LayerProfile>& profile, int first, int last) {
  StageSplit sum{.first_layer = first};
  sum.activation_bytes = profile[static_cast<std::size_t>(first)].input_bytes;
  for (int i = first; i < last; ++i) {
    const LayerProfile& layer = profile[static_cast<std::size_t>(i)];
    sum.layers.push_back(layer.name);
    sum.parameters += layer.parameters;
    sum.parameter_bytes += layer.parameter_bytes;
    sum.forward += layer.forward;
    sum.input += layer.input;
    sum.weight += layer.weight;
    sum.activation_bytes += layer.activation_bytes;
  }
  return sum;
}

std::string in_milliseconds(double seconds) {
  return seconds > 0 ? fmt::format("{:.3f}", 1e3 * seconds) : "-";
}

// Returns a text such as "3 to 15, blocks.2 to head". Layers without a name have only their numbers.
std::string layers_in(const StageSplit& stage) {
  const int last = stage.first_layer + static_cast<int>(stage.layers.size()) - 1;
  const std::string& name = stage.layers.front();
  if (last == stage.first_layer) return fmt::format("{}{}{}", last, name.empty() ? "" : ", ", name);
  std::string text = fmt::format("{} to {}", stage.first_layer, last);
  if (!name.empty() && !stage.layers.back().empty())
    text += fmt::format(", {} to {}", name, stage.layers.back());
  return text;
}

}  // namespace

PipelineSplit split_layers(const std::vector<LayerProfile>& profile, const SplitOptions& options) {
  const Schedule schedule = value_or_throw(make_schedule(
      options.schedule,
      {.ranks = options.ranks, .microbatches = options.microbatches, .chunks = options.chunks}));
  const std::vector<LayerCost> costs = costs_of(profile);
  PipelineSplit split{.schedule = schedule.name, .microbatches = options.microbatches};
  split.first_layers = cut(profile, costs, schedule, options);
  const std::vector<int> ranks = ranks_of_stages(schedule);
  for (std::size_t stage = 0; stage < split.first_layers.size(); ++stage) {
    const int last = stage + 1 < split.first_layers.size() ? split.first_layers[stage + 1]
                                                           : static_cast<int>(profile.size());
    split.stages.push_back(sum_of(profile, split.first_layers[stage], last));
    split.stages.back().rank = ranks[stage];
  }
  for (const double bytes : memory_of_ranks(costs, split.first_layers, schedule, options.parameter_copies))
    split.rank_memory_bytes.push_back(static_cast<std::int64_t>(bytes));
  const auto simulated = simulate_schedule(schedule, times_of_stages(costs, split.first_layers));
  split.step = simulated.makespan;
  split.bubble_fraction = simulated.bubble_fraction;
  for (std::size_t i = 0; i < profile.size(); ++i) {
    if (!profile[i].separable)
      split.not_separable.push_back(profile[i].name.empty() ? fmt::format("layer {}", i) : profile[i].name);
  }
  return split;
}

std::string PipelineSplit::table() const {
  using Row = std::vector<std::string>;
  std::vector<Row> rows{
      {"stage", "rank", "layers", "parameters", "forward", "input", "weight", "activations"}};
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageSplit& stage = stages[i];
    rows.push_back({fmt::to_string(i), fmt::to_string(stage.rank), layers_in(stage),
                    with_commas(stage.parameters), in_milliseconds(stage.forward),
                    in_milliseconds(stage.input), in_milliseconds(stage.weight),
                    stage.activation_bytes > 0 ? in_mib(stage.activation_bytes) : "-"});
  }
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) text += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += row.back() + "\n";
  }
  std::vector<std::string> memory;
  for (std::size_t rank = 0; rank < rank_memory_bytes.size(); ++rank)
    memory.push_back(fmt::format("rank {} {}", rank, in_mib(rank_memory_bytes[rank])));
  text += fmt::format("memory at most: {}\n", fmt::join(memory, ", "));
  if (step > 0)
    text += fmt::format(
        "{} with {} microbatches: {} ms a step, {:.1f} % of the ranks' time is idle (times are ms of a microbatch)\n",
        schedule, microbatches, in_milliseconds(step), 100 * bubble_fraction);
  if (!not_separable.empty())
    text += fmt::format("weight gradients cannot be computed later in: {}\n", fmt::join(not_separable, ", "));
  return text;
}

std::string PipelineSplit::json() const {
  nlohmann::ordered_json value{{"schedule", schedule},
                               {"microbatches", microbatches},
                               {"step_seconds", step},
                               {"bubble_fraction", bubble_fraction},
                               {"rank_memory_bytes", rank_memory_bytes},
                               {"not_separable", not_separable},
                               {"first_layers", first_layers},
                               {"stages", nlohmann::ordered_json::array()}};
  for (const StageSplit& stage : stages)
    value["stages"].push_back({{"rank", stage.rank},
                               {"first_layer", stage.first_layer},
                               {"layers", stage.layers},
                               {"parameters", stage.parameters},
                               {"parameter_bytes", stage.parameter_bytes},
                               {"forward_seconds", stage.forward},
                               {"input_seconds", stage.input},
                               {"weight_seconds", stage.weight},
                               {"activation_bytes", stage.activation_bytes}});
  return value.dump(2);
}

}  // namespace muster
