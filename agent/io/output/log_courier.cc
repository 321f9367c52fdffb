#include "agent/io/output/log_courier.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace muster::agent {

namespace {

constexpr Duration kLook = std::chrono::milliseconds(50);

}  // namespace

void LogCourier::add(const Source& source, std::shared_ptr<net::LogWriter::File> file) {
  entries_.insert_or_assign(source, Entry{.file = std::move(file)});
}

void LogCourier::add_left(const Source& source, std::shared_ptr<net::LogWriter::File> file) {
  file->close();
  entries_.insert_or_assign(source, Entry{.file = std::move(file), .left = true});
}

void LogCourier::attempt_ends(Attempt attempt) {
  for (auto& [source, entry] : entries_) entry.ended = entry.ended || source.attempt == attempt;
}

void LogCourier::look() {
  for (auto each = entries_.begin(); each != entries_.end();)
    each = look_at(each->second) ? entries_.erase(each) : std::next(each);
}

// Notes how much of the file is written. Returns true if nothing more of the file has to be sent.
bool LogCourier::look_at(Entry& entry) {
  const auto progress = entry.file->progress();
  const bool all = progress.closed || (entry.ended && !progress.waiting);
  if (!entry.number) {
    // If a file was neither written to nor closed, it does not exist.
    if (progress.written_bytes == 0 && !progress.closed) return all;
    entry.number = sending_.add(entry.left ? LogSending::Wanted::kAsked : LogSending::Wanted::kSurely);
  }
  sending_.written(*entry.number, progress.written_bytes, all);
  return sending_.forget(*entry.number);
}

bool LogCourier::done() {
  look();
  return entries_.empty() || (sending_.done() && std::ranges::none_of(entries_, [](const auto& each) {
                                return each.second.file->progress().waiting;
                              }));
}

awaitable<void> LogCourier::run() {
  const auto self = shared_from_this();
  asio::steady_timer pause(co_await asio::this_coro::executor);
  boost::system::error_code cancelled;
  while (!cancelled && !link_.closed()) {
    look();
    send_more();
    if (on_done_ && done()) std::exchange(on_done_, nullptr)();
    pause.expires_after(kLook);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
}

const LogCourier::Source* LogCourier::source_of(LogSending::File number) const {
  const auto found =
      std::ranges::find_if(entries_, [number](const auto& each) { return each.second.number == number; });
  return found == entries_.end() ? nullptr : &found->first;
}

void LogCourier::send_more() {
  if (reading_ || link_.closed() || !link_.idle()) return;
  const auto next = sending_.next();
  const Source* const source = next ? source_of(next->file) : nullptr;
  if (source == nullptr) return;
  reading_ = true;
  entries_.at(*source).file->read(
      next->offset, next->limit_bytes,
      [weak = weak_from_this(), source = *source](Expected<net::LogParts::Piece> piece) {
        if (const auto self = weak.lock()) self->read_back(source, std::move(piece));
      });
}

void LogCourier::read_back(const Source& source, Expected<net::LogParts::Piece> piece) {
  reading_ = false;
  const auto entry = entries_.find(source);
  if (entry == entries_.end() || link_.closed()) return;
  const LogSending::File number = *entry->second.number;
  if (!piece) {
    log::warning("{}; the launcher gets no more of it", piece.error().message());
    if (sending_.stop(number)) entries_.erase(entry);
    return;
  }
  wire::LogPiece message{.rank = source.rank, .file = source.file, .offset = piece->offset, .text = {}};
  message.last = sending_.sent(number, piece->offset, piece->bytes.size(), Clock::now());
  message.left_bytes = sending_.left_bytes();
  link_.send(source.attempt, message, piece->bytes);
  send_more();
}

void LogCourier::taken(Attempt attempt, const wire::LogTaken& taken) {
  const auto entry = entries_.find(Source{attempt, taken.rank, taken.file});
  if (entry == entries_.end() || !entry->second.number) return;
  const LogSending::File number = *entry->second.number;
  if (taken.stopped && sending_.stop(number))
    entries_.erase(entry);
  else
    sending_.taken(number, taken.bytes, Clock::now());
  send_more();
  if (on_done_ && done()) std::exchange(on_done_, nullptr)();
}

}  // namespace muster::agent
