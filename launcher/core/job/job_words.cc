// This part of Job makes messages to the user. They say what the job waits for, what was lost, and which
// ranks live.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "launcher/core/job/job.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

std::string Job::list_of(const std::vector<NodeId>& nodes) const {
  std::string list;
  for (const NodeId id : nodes) list += (list.empty() ? "" : ", ") + names_.of(id);
  return list;
}

// If workers are still ending, tells this to the user who asked for the end by a signal.
void Job::tell_wait(int signal, TimePoint now) {
  if (crew_.living_count() == 0) return;
  decide(Tell{fmt::format("waiting for {} to end (grace {:g} s{})", count_of(crew_.living_count(), "worker"),
                          in_seconds(std::max(Duration::zero(), kill_from_ - now)),
                          signal == SIGINT ? "; Ctrl-C again to kill" : "")},
         "the user asked for the end");
}

// If the user stops a job, tells the user which steps are lost. With --memory-tier this is not known yet,
// because the agents write a checkpoint as they leave. The summary tells it then.
void Job::tell_loss() {
  if (plan_.job.limits.memory_tier_bytes > 0) return;
  const bool stopped = verdict_.kind == Verdict::Kind::kInterrupted ||
                       verdict_.kind == Verdict::Kind::kCancelled ||
                       verdict_.kind == Verdict::Kind::kTimeLimit;
  const std::string loss = stopped ? loss_text(chronicle_.history()) : "";
  if (!loss.empty()) verdict_.cause += "; " + loss;
}

// If `on_disk`, the runtime wrote the checkpoint, and will resume from it. Otherwise the program itself has
// committed a checkpoint. It can resume from this checkpoint, but does not have to. Returns "" if there is no
// checkpoint.
std::string Job::offer_text(bool on_disk) const {
  const auto step = chronicle_.resume_step();
  return step ? fmt::format("{} from step {}", on_disk ? "resumes" : "can resume", *step) : "";
}

std::string Job::restart_text(bool on_disk, TimePoint now) const {
  const auto step = chronicle_.resume_step();
  std::string from = step ? offer_text(on_disk) : "begins; no Muster checkpoint";
  // The agents may have newer steps in memory. These are known only when the ranks have met.
  if (plan_.job.limits.memory_tier_bytes > 0) from += step ? " or a newer one in memory" : " on the disk";
  std::string text = fmt::format("{}; attempt {} {} (restart {} of {})", recovery_.repeated()->cause,
                                 attempt_, from, recovery_.used(now), plan_.job.max_restarts);
  if (chronicle_.has_another_size())
    text += fmt::format(" with {} on {}", count_of(facts_.world_size, "rank"),
                        count_of(crew_.members().size(), "node"));
  return text;
}

// The place with the fewest ranks comes first. If only one rank is in another place, the others may be
// waiting for it.
std::string Job::still_text(Duration still) const {
  constexpr std::size_t kMostShown = 4;
  std::map<std::string, std::vector<Rank>> places;
  for (const auto& [rank, each] : facts_.still) places[each.frame].push_back(rank);
  std::vector<std::pair<std::string, std::vector<Rank>>> sorted(places.begin(), places.end());
  std::ranges::sort(sorted, {},
                    [](const auto& place) { return std::pair(place.second.size(), place.first); });
  std::string text = fmt::format("no rank has moved for {:.0f} s", in_seconds(still));
  for (std::size_t i = 0; i < std::min(sorted.size(), kMostShown); ++i) {
    const auto& [frame, ranks] = sorted[i];
    const std::string first = names_.of(ranks.front(), crew_.node_of(ranks.front()));
    const std::string who = ranks.size() == 1 ? first + " is"
                            : sorted.size() == 1
                                ? fmt::format("all {} ranks are", ranks.size())
                                : fmt::format("{} ranks, such as {}, are", ranks.size(), ranks.front());
    text += fmt::format("{} {} in {}", i == 0 ? ":" : ";", who, frame);
  }
  return text;
}

std::string Job::too_few_text(TimePoint now) const {
  const std::int32_t least = plan_.min_nodes.value_or(static_cast<std::int32_t>(plan_.nodes.size()));
  std::vector<NodeId> missing = recruiter_.missing(crew_, is_patient(), now);
  constexpr std::size_t kMostNamed = 5;
  const std::size_t more = missing.size() - std::min(missing.size(), kMostNamed);
  missing.resize(missing.size() - more);
  return fmt::format("{} of at least {} nodes joined within {:g} s; missing: {}{}", fleet_.there_count(),
                     least, in_seconds(StartWait::kLimit), list_of(missing),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

// Returns advice for the case that a host lacks something that this machine has.
std::string Job::advice_for(const wire::AttemptRefused& refused) const {
  if (refused.missing.empty()) return "";
  if (plan_.remote.in_containers())
    return " (it is not in the image; containers see only the working directory and the mounts of --mount)";
  const std::string& directory = plan_.job.working_directory;
  const bool is_path = refused.missing.contains('/');
  const std::string path = (std::filesystem::path(directory) / refused.missing).lexically_normal().string();
  if (is_path && path != directory && !plan_.program_is_here) return " (it is missing here, too)";
  if (is_path && (path == directory || path.starts_with(directory + "/")))
    return fmt::format(" (--sync {} copies it to all hosts)", as_shell_word(directory));
  return " (install it there, or give its path)";
}

// Returns a text such as "h[1-2]: they lack this; h5: it lacks that". Hosts with the same message share one
// entry.
std::string Job::by_host(const std::map<NodeId, std::string>& messages) const {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const auto& [node, message] : messages) {
    auto group = std::ranges::find(groups, message, &decltype(groups)::value_type::first);
    if (group == groups.end()) group = groups.insert(group, {message, {}});
    group->second.push_back(names_.host_of(node));
  }
  constexpr std::size_t kMostNamed = 5;
  const std::size_t more = groups.size() - std::min(groups.size(), kMostNamed);
  groups.resize(groups.size() - more);
  std::string text;
  for (const auto& [message, hosts] : groups)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", folded(hosts), message);
  return more > 0 ? fmt::format("{}; and {} more", text, more) : text;
}

std::vector<Rank> Job::living_ranks() const {
  const bool may_live = phase_ >= Phase::kRunning && phase_ <= Phase::kStopping;
  return may_live ? crew_.living() : std::vector<Rank>();
}

std::string Job::waiting_for(TimePoint now) const {
  if (phase_ == Phase::kGathering && !deadline_) {
    const std::vector<NodeId> missing = recruiter_.missing(crew_, is_patient(), now);
    return missing.empty() ? "" : fmt::format("waiting for the agent of {}", list_of(missing));
  }
  if (phase_ != Phase::kPreparing) return "";
  std::vector<NodeId> missing;
  for (const NodePlan& each : crew_.members()) {
    if (!crew_.has_prepared(each.node)) missing.push_back(each.node);
  }
  return missing.empty() ? "" : fmt::format("waiting for {} to prepare the attempt", list_of(missing));
}

}  // namespace muster::launcher
