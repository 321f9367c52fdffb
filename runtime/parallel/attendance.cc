#include "runtime/parallel/attendance.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fmt/format.h>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/base/quiet_thread.h"
#include "runtime/rank/step_time.h"

namespace muster {
namespace {

// If another rank is gone, is late, or is in another collective, the errors of the backends contain one of
// these texts.
constexpr std::string_view kMismatch = "collective mismatch";
constexpr std::array<std::string_view, 7> kAboutPeers{
    "shm: ",       "mpi: ",  "Connection closed by peer", "Connection reset by peer", "Timed out waiting",
    "Broken pipe", kMismatch};

constexpr std::string_view kAdvice =
    "; unequal numbers of batches need DistributedDataParallel::join, or a sampler that makes them equal";

constexpr std::int64_t kNoLoop = -2;
constexpr std::int64_t kAllLoops = -1;  // the rank has left all loops: its training is over
constexpr std::chrono::seconds kLook{1};
constexpr std::chrono::seconds kPatience{5};  // how long a rank can take from one loop to the next

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

Attendance::Attendance(const c10::intrusive_ptr<c10d::Store>& store, int rank, const std::string& group_key,
                       std::function<std::string()> who_is_gone)
    : store_(store), rank_(rank), who_is_gone_(std::move(who_is_gone)) {
  // Each rank numbers the group's models itself. All ranks make the same models, so they get
  // the same numbers.
  const std::int64_t model = store->add(fmt::format("{}ended/models/{}", group_key, rank), 1);
  key_ = fmt::format("{}ended/{}", group_key, model);
  listen_to_loop_ends(this, [this](const TrainingLoop& loop) { leaves(loop); });
}

Attendance::~Attendance() {
  stop_listening_to_loop_ends(this);
}

void Attendance::watch() {
  watcher_ = start_quiet_thread("muster-attend", [this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    for (;;) {
      std::unique_lock lock(mutex);
      never.wait_for(lock, stop, kLook, [] { return false; });
      if (stop.stop_requested()) return;
      const auto since = step_time().open_since(kCommunicatePart);
      if (!since || Clock::now() - *since < kPatience) continue;
      // The training thread is blocked, so this thread throws: its exception ends the process.
      if (const std::string why = deserted(); !why.empty()) throw std::runtime_error(why);
    }
  });
}

void Attendance::accumulates(bool meets) {
  trains();
  if (meets) begun_ = count_ + 1;
}

void Attendance::reduces() {
  trains();
  begun_ = ++count_;
}

// Notes the loop that this rank trains in. The counts change afterwards, so the watcher never sees the counts
// of a new loop together with the old loop.
void Attendance::trains() {
  const TrainingLoop loop = current_loop();
  if (loop != loop_) {
    const std::lock_guard lock(mutex_);
    loop_ = loop;
    const auto known = std::ranges::find(loaders_, loop.loader);
    loader_ = loop.loader == 0 ? kNoLoop : known - loaders_.begin();
    if (known == loaders_.end() && loop.loader != 0) loaders_.push_back(loop.loader);
  }
  if (!left_.empty()) say(std::exchange(left_, ""), "");  // this rank trains again
}

void Attendance::leaves(const TrainingLoop& loop) {
  if (joins_ || loop != loop_) return;
  left_ = fmt::format("{} {} {} {} {}", rank_, count_.load(), begun_.load(), loader_, loop_.end);
  say("", left_);
}

void Attendance::ends() {
  if (begun_ > 0)
    say(left_, fmt::format("{} {} {} {} {}", rank_, count_.load(), begun_.load(), kAllLoops, 0));
}

// If the store has the text `before`, replaces it by `text`. If it has the text of another rank, keeps that
// text, because it is enough to know one rank that has left.
void Attendance::say(const std::string& before, const std::string& text) {
  const auto store = store_.lock();
  if (store == nullptr) return;
  try {
    if (!before.empty()) store->compareSet(key_, bytes_of(before), bytes_of(""));
    if (!text.empty()) store->compareSet(key_, bytes_of(""), bytes_of(text));
  } catch (const std::exception&) {
    // Nothing to do: the rank that served the store has ended, and nobody can read the text any more.
  }
}

std::string Attendance::said(c10d::Store& store) const {
  if (!store.check({key_})) return {};
  const auto bytes = store.get(key_);
  return {bytes.begin(), bytes.end()};
}

// A rank that leaves a loop writes a text to the store: which loop it leaves, in how many reductions it has
// taken part, and how many reductions it has begun. `said` is this text. Returns the content of the text if
// the rank has left this rank's loop or all loops, with fewer reductions than this rank. Otherwise returns
// nothing.
std::optional<Attendance::Left> Attendance::who_left(const std::string& said) const {
  Left left;
  long count = 0, begun = 0, loader = 0, end = 0;
  if (std::sscanf(said.c_str(), "%d %ld %ld %ld %ld", &left.rank, &count, &begun, &loader, &end) != 5)
    return std::nullopt;
  left.count = count;
  left.begun = begun;
  const std::lock_guard lock(mutex_);
  const bool here = loader == kAllLoops || (loader == loader_ && end == loop_.end);
  return here && (count < count_ || begun < begun_) ? std::optional(left) : std::nullopt;
}

std::string Attendance::deserted() const {
  const auto store = store_.lock();
  if (store == nullptr) return {};
  try {
    const auto left = who_left(said(*store));
    if (!left) return {};
    return fmt::format(
        "DistributedDataParallel: this rank waits in reduction {} of gradients, "
        "and rank {} has come to the end of its data after {}{}",
        begun_.load(), left->rank, left->count, kAdvice);
  } catch (const std::exception&) {
    return {};  // the store is gone: the reduction will fail by itself
  }
}

std::string Attendance::explain(const std::string& text) const {
  const bool about_peers = std::ranges::any_of(
      kAboutPeers, [&](std::string_view words) { return text.find(words) != std::string::npos; });
  const auto store = store_.lock();
  if (!about_peers || store == nullptr || begun_ == 0) return {};
  // The other ranks still reduce gradients, but this rank has left its loop and is in another collective.
  if (!left_.empty() && text.find(kMismatch) != std::string::npos)
    return fmt::format(" (this rank has come to the end of its data after {} reductions of gradients{})",
                       count_.load(), kAdvice);
  const std::string here = fmt::format("this rank has begun {} reductions of gradients", begun_.load());
  try {
    const std::string text_of_other = said(*store);
    if (const auto left = who_left(text_of_other))
      return fmt::format(" ({}; rank {} has ended after {}{})", here, left->rank, left->count, kAdvice);
    const std::string gone = who_is_gone_ ? who_is_gone_() : "";
    if (!gone.empty()) return fmt::format(" ({}; {})", here, gone);
    return text_of_other.empty() ? fmt::format(" ({}; no other rank has ended)", here) : "";
  } catch (const std::exception&) {
    return fmt::format(" ({}; the rank that serves the store has ended or died{})", here, kAdvice);
  }
}

}  // namespace muster
