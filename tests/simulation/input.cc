#include "tests/simulation/input.h"

#include <algorithm>
#include <fmt/format.h>

#include "launcher/core/job/input_feed.h"

namespace muster::simulation {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kRecordBytes = 8;
constexpr std::uint64_t kRecordCount = 100'000;
constexpr std::size_t kPipeBytes = 64 << 10;
constexpr std::size_t kMostReadBytes = 8 << 10;
constexpr std::uint64_t kMostRepeated = launcher::InputFeed::kMostKeptBytes / kRecordBytes;

}  // namespace

void SimulatedInput::read(std::size_t most, OnRead done) {
  const auto program = program_.lock();
  if (!program) return;
  std::string text;
  while (text.size() + kRecordBytes <= most && next_ < kRecordCount) text += fmt::format("{:07}\n", next_++);
  program->run_after(chance_.between(0ms, 50ms),
                     [done = std::move(done), text = std::move(text)] { done(text); });
}

void SimulatedStdin::give(const wire::Input& input) {
  world_.invariants.holds(!ended_, "no input comes behind its end");
  waiting_ += input.text.view();
  ended_ = input.end;
  world_.invariants.holds(waiting_.size() <= wire::kInputWindowBytes, "no more input waits than the window");
  fill();
}

void SimulatedStdin::fill() {
  const std::size_t size = std::min(waiting_.size(), kPipeBytes - pipe_.size());
  pipe_ += waiting_.substr(0, size);
  waiting_.erase(0, size);
  taken_.written_bytes += static_cast<std::int64_t>(size);
}

void SimulatedStdin::read() {
  std::uint64_t& unread = world_.input[launch_].read_count;
  const std::size_t size = std::min(kMostReadBytes, pipe_.size()) / kRecordBytes * kRecordBytes;
  for (std::size_t at = 0; at < size; at += kRecordBytes) {
    const std::uint64_t record = std::stoull(pipe_.substr(at, kRecordBytes));
    const bool follows = last_ ? record == *last_ + 1 : record <= unread && record + kMostRepeated >= unread;
    world_.invariants.holds(follows, fmt::format("input comes in order and whole: record {} after {}", record,
                                                 last_.value_or(unread)));
    last_ = record;
    unread = std::max(unread, record + 1);
  }
  pipe_.erase(0, size);
  taken_.read_bytes += static_cast<std::int64_t>(size);
  fill();
  if (!ended_ || !pipe_.empty()) return;
  end_read_ = world_.input[launch_].end_read = true;
  world_.invariants.holds(unread == kRecordCount,
                          fmt::format("input ends behind its last record, not before record {}", unread));
}

std::optional<wire::InputTaken> SimulatedStdin::news() {
  if (taken_.written_bytes == told_.written_bytes && taken_.read_bytes == told_.read_bytes)
    return std::nullopt;
  told_ = taken_;
  return told_;
}

}  // namespace muster::simulation
