#include "launcher/core/settings/debug_options.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <limits>

#include "common/base/text.h"
#include "launcher/core/settings/host_options.h"

namespace muster::launcher {

namespace {

constexpr std::string_view kAll = "all";

void read_input(SettingReader& reader, Options& options) {
  const Setting* setting = reader.find("stdin");
  if (setting == nullptr) return;
  options.input = InputOption{setting->source, kNoRank};
  if (setting->values.back() == "none") return;
  const auto rank = parse_number<std::int32_t>(setting->values.back());
  if (!rank || *rank < 0) return reader.refuse(*setting, "is not a rank: give a number from 0, or none");
  options.input->rank = *rank;
}

void read_wrapper(SettingReader& reader, const std::string& source, const std::string& text,
                  Options& options) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0)
    return reader.refuse({source, {text}}, "does not name ranks: give RANKS:COMMAND, such as 0:'gdb --args'");
  WrapperOption option{.source = source};
  const std::string_view ranks = std::string_view(text).substr(0, colon);
  if (ranks != kAll) {
    auto parsed = NumberRanges::parse(ranks, source);
    if (!parsed) return reader.fail(parsed.error());
    option.ranks = *std::move(parsed);
  }
  auto words = shell_words(std::string_view(text).substr(colon + 1));
  if (!words)
    return reader.refuse({source, {text}}, "has an unclosed quote, or a backslash at the end: complete it");
  if (words->empty() || words->front().empty())
    return reader.refuse({source, {text}},
                         "has no command after the colon: give one, such as 0:'gdb --args'");
  option.words = *std::move(words);
  options.wrappers.push_back(std::move(option));
}

}  // namespace

void read_debug(SettingReader& reader, Options& options) {
  read_input(reader, options);
  if (const Setting* setting = reader.find("wrap")) {
    for (const std::string& text : setting->values) read_wrapper(reader, setting->source, text, options);
  }
  const bool waits_for_a_person = options.input && options.input->rank != kNoRank &&
                                  std::ranges::any_of(options.wrappers, [&](const WrapperOption& wrapper) {
                                    return wrapper.ranks.contains(options.input->rank);
                                  });
  if (!waits_for_a_person) return;
  if (reader.find("hang-limit") == nullptr) options.limits.hang_limit = Duration::zero();
  if (reader.find("heartbeat-limit") == nullptr) options.limits.heartbeat_limit = Duration::zero();
}

Status check_ranks(const Options& options, const Plan& plan) {
  const std::int32_t world_size = plan.world_size();
  const auto below = [](std::int32_t count) { return count == 1 ? "0" : fmt::format("0 to {}", count - 1); };
  const auto refuse = [&](const std::string& source, std::int32_t rank) {
    return failure(ErrorCode::kInvalidArgument, "{}: {} is not a rank of this job: give {}", source, rank,
                   below(world_size));
  };
  if (options.input && options.input->rank >= world_size)
    return refuse(options.input->source, options.input->rank);
  for (const WrapperOption& wrapper : options.wrappers) {
    if (const auto beyond = wrapper.ranks.beyond(world_size)) return refuse(wrapper.source, *beyond);
  }
  const std::int32_t most_on_a_node = std::ranges::max(plan.nodes, {}, &NodePlan::worker_count).worker_count;
  const auto& shown = options.shown_local_ranks;
  if (shown && std::ranges::min(*shown) >= most_on_a_node)
    return failure(ErrorCode::kInvalidArgument, "--local-ranks-filter: no node has local rank {}: give {}",
                   fmt::join(*shown, " or "), below(most_on_a_node));
  return {};
}

void settle_input(Plan& plan, const Options& options, bool has_input) {
  const bool is_mpi = plan.job.mpi == wire::Mpi::kPmix || plan.job.mpi == wire::Mpi::kPmi;
  if (!options.input && (is_mpi || has_input)) plan.job.input_rank = Rank(0);
}

std::vector<wire::Wrapper> wrappers_of(const Options& options) {
  constexpr Rank kLast(std::numeric_limits<std::int32_t>::max());
  std::vector<wire::Wrapper> wrappers;
  for (const WrapperOption& option : options.wrappers) {
    if (option.ranks.ranges().empty()) wrappers.push_back({Rank(0), kLast, option.words});
    for (const auto& [first, last] : option.ranks.ranges())
      wrappers.push_back({Rank(first), Rank(last), option.words});
  }
  return wrappers;
}

}  // namespace muster::launcher
