#include "agent/core/output/log_sending.h"

#include <algorithm>

namespace muster::agent {

LogSending::File LogSending::add(Wanted wanted) {
  files_[++newest_].wanted = wanted == Wanted::kSurely;
  return newest_;
}

void LogSending::written(File file, std::uint64_t bytes, bool all) {
  State& its = files_.at(file);
  its.written = std::max(its.written, bytes);
  its.all_written = its.all_written || all;
}

// Takes a piece of each file in turn. So no file has to wait until another one is complete.
std::optional<LogSending::Next> LogSending::next() const {
  if (on_its_way_bytes_ > 0 && on_its_way_bytes_ + kLeastBytes > window_bytes_) return std::nullopt;
  const std::size_t room = std::min(kPieceBytes, window_bytes_ - on_its_way_bytes_);
  const auto wants = [](const auto& each) { return each.second.wants(); };
  auto found = std::find_if(files_.upper_bound(last_sent_), files_.end(), wants);
  if (found == files_.end()) found = std::ranges::find_if(files_, wants);
  if (found == files_.end()) return std::nullopt;
  return Next{found->first, found->second.sent, room};
}

bool LogSending::sent(File file, std::uint64_t offset, std::size_t bytes, TimePoint now) {
  State& its = files_.at(file);
  its.sent = std::max(its.sent, offset + bytes);
  its.end_sent = its.all_written && its.sent >= its.written;
  last_sent_ = file;
  if (bytes > 0) on_its_way_.push_back({file, offset + bytes, bytes, now});
  on_its_way_bytes_ += bytes;
  return its.end_sent;
}

bool LogSending::stop(File file) {
  State& its = files_.at(file);
  its.stopped = true;
  if (its.wanted) return false;
  std::erase_if(on_its_way_, [&](const OnItsWay& each) {
    if (each.file != file) return false;
    on_its_way_bytes_ -= each.bytes;
    return true;
  });
  files_.erase(file);
  return true;
}

void LogSending::taken(File file, std::uint64_t bytes, TimePoint now) {
  std::optional<Duration> took;
  std::erase_if(on_its_way_, [&](const OnItsWay& each) {
    if (each.file != file || each.end > bytes) return false;
    took = now - each.at;
    on_its_way_bytes_ -= each.bytes;
    return true;
  });
  if (const auto found = files_.find(file); found != files_.end()) {
    found->second.sent = std::max(found->second.sent, std::min(bytes, found->second.written));
    found->second.wanted = true;
  }
  if (!took) return;
  if (*took <= kGoal) window_bytes_ = std::min(window_bytes_ + kPieceBytes, kMostBytes);
  if (*took > 2 * kGoal) window_bytes_ = std::max(window_bytes_ / 2, kLeastBytes);
}

std::uint64_t LogSending::left_bytes() const {
  std::uint64_t left = 0;
  for (const auto& [file, its] : files_)
    left += its.wanted ? its.written - std::min(its.sent, its.written) : 0;
  return left;
}

bool LogSending::done() const {
  return on_its_way_.empty() &&
         std::ranges::none_of(files_, [](const auto& each) { return each.second.wants(); });
}

bool LogSending::forget(File file) {
  const State& its = files_.at(file);
  const bool waits =
      std::ranges::any_of(on_its_way_, [file](const OnItsWay& each) { return each.file == file; });
  if (waits || !(its.end_sent || (its.stopped && its.all_written))) return false;
  // If some part was not sent, the file is kept, so that left_bytes() still counts that part.
  if (its.sent < its.written) return false;
  files_.erase(file);
  return true;
}

}  // namespace muster::agent
