#include "tests/simulation/lineage.h"

#include <algorithm>
#include <utility>

namespace muster::simulation {

using namespace std::chrono_literals;
using launcher::AttemptDenied;

// Answers in the order of the requests.
void SimulatedLineage::answer(std::function<void()> what) {
  const TimePoint now = world_.timeline.now();
  const bool late = late_until_ > now || answered_ > now;
  if (!late && world_.chance.one_in(2)) return what();
  answered_ = std::max({now, late_until_, answered_}) + world_.chance.between(1us, 3ms);
  program_->run_after(answered_ - now, std::move(what));
}

void SimulatedLineage::begin_attempt(const launcher::BeginAttempt& wish, OnBegun begun, OnDenied denied) {
  answer([this, wish, begun = std::move(begun), denied = std::move(denied)] {
    const auto mine = begin(wish);
    if (!mine) {
      world_.say(fmt::format("launch {}: no attempt: {}", launch_, mine.error().why.message()));
      return denied(mine.error());
    }
    begun(launcher::AttemptBegun{
        .attempt = mine->attempt, .resume_step = mine->resume_step, .question = wish.question});
  });
}

std::expected<Directory::Begun, AttemptDenied> SimulatedLineage::begin(const launcher::BeginAttempt& wish) {
  const auto deny = [&](AttemptDenied::By by, ErrorCode code, const std::string& why) {
    return std::unexpected(AttemptDenied{.by = by, .why = Error(code, why), .question = wish.question});
  };
  if (failures_ > 0) {
    --failures_;
    ++denial_count_;
    world_.disturbed(world_.timeline.now());
    return deny(AttemptDenied::By::kDisk, ErrorCode::kInternal,
                "cannot write /checkpoints: Input/output error");
  }
  if (wish.last != Attempt() && world_.directory.is_fenced(wish.last)) {
    has_fenced_ = true;
    return deny(AttemptDenied::By::kNewerLaunch, ErrorCode::kFenced,
                "an attempt of another launch has begun");
  }
  const Directory::Begun* newest = world_.directory.newest();
  const bool is_used =
      newest != nullptr && newest->launch != launch_ && world_.launcher_lives(newest->launch);
  if (is_used && !wish.take_over) {
    has_fenced_ = true;
    return deny(AttemptDenied::By::kLivingLaunch, ErrorCode::kFenced, "another launch uses the directory");
  }
  return world_.directory.begin(launch_);
}

void SimulatedLineage::newest_commit(const launcher::LookForCheckpoint& wish, OnFound found) {
  answer([this, wish, found = std::move(found)] {
    launcher::CheckpointFound answer{.step = std::nullopt, .question = wish.question};
    if (const auto step = world_.directory.newest_commit_of(wish.attempt))
      answer.step = static_cast<std::int64_t>(*step);
    found(answer);
  });
}

}  // namespace muster::simulation
