#include "common/checkpoint/retention.h"

#include <algorithm>
#include <tuple>

namespace muster {

namespace {

// Returns the checkpoints that are usable and count. The newest one comes first.
std::vector<CheckpointId> good_ones(const std::vector<KnownCheckpoint>& known) {
  std::vector<CheckpointId> good;
  for (const KnownCheckpoint& each : known)
    if (each.usable && each.counts) good.push_back(each.id);
  std::ranges::sort(good, is_newer);
  return good;
}

bool is_among(const std::vector<CheckpointId>& ids, CheckpointId id, std::size_t first) {
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(first, ids.size()));
  return std::find(ids.begin(), end, id) != end;
}

class Retention {
 public:
  Retention(const std::vector<KnownCheckpoint>& known, const std::vector<AttemptRecord>& attempts,
            const RetentionPlan& plan)
      : attempts_(attempts), plan_(plan), good_(good_ones(known)) {
    if (plan.best > 0 && plan.best_by) best_ = ranked(known, *plan.best_by);
    newest_ = plan.newest;
    if (!newest_ && !good_.empty()) newest_ = good_.front();
    // Some damaged checkpoints are newer than `last_`. If they count, they stay, because someone might repair
    // them.
    if (!good_.empty()) last_ = good_[std::min(std::max(plan.last, std::size_t{1}), good_.size()) - 1];
  }

  RetentionDecision decide(const KnownCheckpoint& each) const {
    const auto stays = [&](std::string reason) {
      return RetentionDecision{.id = each.id, .stays = true, .reason = std::move(reason)};
    };
    if (each.pinned) return stays("pinned");
    if (std::ranges::find(attempts_, each.id.attempt, &AttemptRecord::attempt) == attempts_.end())
      return stays("its attempt has no file");
    if (!good_.empty() && each.id == good_.front()) return stays("the newest");
    if (!newest_ || !is_newer(*newest_, each.id)) return stays("newer than the newest usable one");
    if (!attempts_.empty() && attempts_.back().resume == each.id)
      return stays("the newest attempt resumed from it");
    if (each.committed && each.counts && last_ && !is_newer(*last_, each.id))
      return stays(fmt::format("one of the last {}", plan_.last));
    if (each.usable && each.counts && plan_.every > 0 && each.id.step % plan_.every == 0)
      return stays(fmt::format("its step is a multiple of {}", plan_.every));
    if (is_among(best_, each.id, plan_.best)) return stays(fmt::format("one of the best {}", plan_.best));
    constexpr const char* kDamaged = "its manifest cannot be used";
    if (each.committed && !each.usable && plan_.damaged) return stays(kDamaged);
    const char* reason = !each.committed ? "never committed"
                         : !each.usable  ? kDamaged
                         : !each.counts  ? "written by an attempt that was overtaken"
                                         : "old";
    return {.id = each.id, .stays = false, .reason = reason};
  }

 private:
  const std::vector<AttemptRecord>& attempts_;
  const RetentionPlan& plan_;
  std::vector<CheckpointId> good_;
  std::vector<CheckpointId> best_;
  std::optional<CheckpointId> newest_;
  std::optional<CheckpointId> last_;
};

}  // namespace

std::vector<CheckpointId> ranked(const std::vector<KnownCheckpoint>& known, const BestBy& by) {
  std::vector<std::tuple<double, std::uint64_t, CheckpointId>> with_metric;
  for (const KnownCheckpoint& each : known) {
    const auto metric = each.metrics.find(by.metric);
    if (each.usable && each.counts && metric != each.metrics.end())
      with_metric.emplace_back(by.most ? metric->second : -metric->second, each.id.step, each.id);
  }
  std::ranges::sort(with_metric, std::greater());
  std::vector<CheckpointId> ids;
  for (const auto& each : with_metric) ids.push_back(std::get<CheckpointId>(each));
  return ids;
}

std::vector<RetentionDecision> decide_retention(const std::vector<KnownCheckpoint>& known,
                                                const std::vector<AttemptRecord>& attempts,
                                                const RetentionPlan& plan) {
  const Retention retention(known, attempts, plan);
  std::vector<RetentionDecision> decisions;
  for (const KnownCheckpoint& each : known) decisions.push_back(retention.decide(each));
  return decisions;
}

std::vector<CheckpointId> to_remove(const std::vector<KnownCheckpoint>& known,
                                    const std::vector<AttemptRecord>& attempts, const RetentionPlan& plan) {
  std::vector<CheckpointId> ids;
  for (const RetentionDecision& decision : decide_retention(known, attempts, plan))
    if (!decision.stays) ids.push_back(decision.id);
  return ids;
}

}  // namespace muster
