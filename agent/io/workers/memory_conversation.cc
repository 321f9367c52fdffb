#include "agent/io/workers/memory_conversation.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>
#include <utility>

#include "common/base/log.h"
#include "common/wire/codec.h"

namespace muster::agent {

namespace {

constexpr std::uint64_t kPartBytes = 1 << 20;
constexpr std::uint64_t kPartsUnderWay = 2;
// The limit for one part. It is long, because the neighbour may be busy with computing digests.
constexpr std::chrono::seconds kPartLimit(30);
constexpr std::size_t kMostWanted = 256;
constexpr int kMostOvertaken = 3;  // this many overwritten slots in a row cause a remark

wire::HeldSlot as_told(const Copy& copy) {
  return {copy.rank, copy.id.step, copy.id.attempt, copy.slot_bytes};
}
Copy copy_of(const wire::HeldSlot& slot) {
  return {slot.rank, {.step = slot.step, .attempt = slot.attempt}, slot.slot_bytes};
}

}  // namespace

std::optional<wire::SlotWanted> SlotPull::next() {
  const std::uint64_t under_way = next_number_ - answered_;
  if (!header_) {
    if (under_way > 0) return std::nullopt;
    return wire::SlotWanted{as_told(copy_), next_number_++, copy_.slot_bytes - kSlotPage, sizeof(SlotHeader)};
  }
  const std::uint64_t bytes = bytes_at(asked_);
  if (under_way == kPartsUnderWay || bytes == 0) return std::nullopt;
  return wire::SlotWanted{as_told(copy_), next_number_++, offset_of(std::exchange(asked_, asked_ + bytes)),
                          bytes};
}

bool SlotPull::take(std::string_view bytes) {
  ++answered_;
  if (!header_) return take_header(bytes);
  if (bytes.empty() || bytes.size() != bytes_at(taken_)) return false;
  const std::uint64_t offset = offset_of(taken_);
  taken_ += bytes.size();
  return write(bytes, offset);
}

std::uint64_t SlotPull::bytes_at(std::uint64_t place) const {
  const std::uint64_t end = place < header_->file_bytes ? header_->file_bytes : all_bytes();
  return std::min(kPartBytes, end - place);
}

std::uint64_t SlotPull::offset_of(std::uint64_t place) const {
  return place < header_->file_bytes ? place : header_->contents_at + (place - header_->file_bytes);
}

bool SlotPull::take_header(std::string_view bytes) {
  if (bytes.size() != sizeof(SlotHeader) || !write(bytes, copy_.slot_bytes - kSlotPage)) return false;
  header_ = read_slot_header(fd_.get());
  const std::uint64_t room = copy_.slot_bytes - kSlotPage;
  return header_ && Rank(header_->rank) == copy_.rank && header_->id() == copy_.id &&
         header_->file_bytes <= room && header_->contents_at <= room && header_->contents_bytes > 0 &&
         header_->contents_bytes <= room - header_->contents_at;
}

bool SlotPull::write(std::string_view bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put <= 0 && errno != EINTR) return false;
    if (put <= 0) continue;
    bytes.remove_prefix(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return true;
}

awaitable<void> MemoryConversation::hold(std::shared_ptr<MemoryConversation> self) {
  wire::SlotsHeld all;
  for (const Copy& each : self->setting_.slots.held()) all.slots.push_back(as_told(each));
  self->send(all);
  for (const auto& [rank, copy] : self->setting_.current) self->tell(copy);
  for (;;) {
    auto frame = co_await self->connection_->receive();
    if (!frame) {
      self->ended(frame.error());
      break;
    }
    if (self->connection_->closed() || frame->header.attempt != self->setting_.attempt) break;
    const auto message = wire::decode_for_neighbour(*std::move(frame));
    if (!message) {
      self->ended(message.error());
      break;
    }
    std::visit([&self](const auto& said) { self->hear(said); }, *message);
  }
  self->close();
  self->setting_.on_fetched(self->setting_.neighbour.node);
}

// Called when the connection has ended. Tells the user why, unless the error is kUnavailable. After
// kUnavailable, a line in the log is enough: either the neighbour's attempt is over, or the neighbour is
// lost, and the launcher tells the user about a lost neighbour.
void MemoryConversation::ended(const Error& why) {
  if (connection_->closed() || setting_.is_stopped()) return;
  if (why.code() == ErrorCode::kUnavailable)
    return log::info("node{}: {}", setting_.neighbour.node, why.message());
  break_off(why.message());
}

// Tells the user the reason, and closes the connection. Then hold() ends.
void MemoryConversation::break_off(std::string_view why) {
  setting_.on_remark(
      fmt::format("this node and node{} copy nothing more between their memories in this attempt: {}",
                  setting_.neighbour.node, why));
  connection_->close();
}

void MemoryConversation::tell(const Copy& copy) {
  send(wire::SlotsHeld{{as_told(copy)}});
}

void MemoryConversation::close() {
  pull_.reset();
  wanted_.clear();
  timer_.cancel();
  connection_->close();
}

wire::FrameHeader MemoryConversation::header() {
  wire::FrameHeader header;
  header.destination = setting_.neighbour.node;
  header.source = setting_.own;
  header.attempt = setting_.attempt;
  header.sequence = sequence_ = sequence_.next();
  return header;
}

void MemoryConversation::send(const wire::ToNeighbour& message) {
  connection_->send(wire::encode(header(), message));
}

void MemoryConversation::hear(const wire::SlotsHeld& held) {
  for (const wire::HeldSlot& each : held.slots)
    consider(copy_of(each), has_told_ || each.attempt == setting_.attempt);
  has_told_ = true;
  pull_next();
}

void MemoryConversation::consider(const Copy& offered, bool is_current) {
  switch (setting_.slots.use_of(offered, is_current)) {
    case CopyKeeping::Use::kNone: return;
    case CopyKeeping::Use::kNoRoom:
      return setting_.on_remark(
          fmt::format("keeps no copy of what rank {} of node{} holds in memory: "
                      "--memory-tier has no room for one of {} MiB next to this node's own",
                      offered.rank, setting_.neighbour.node, offered.slot_bytes >> 20));
    case CopyKeeping::Use::kKeep:  // the offered step replaces older ones of its rank
      std::erase_if(wanted_, [&](const Copy& each) { return each.rank == offered.rank; });
      break;
    case CopyKeeping::Use::kOwn: break;
  }
  if (wanted_.size() < kMostWanted) wanted_.push_back(offered);
}

void MemoryConversation::hear(const wire::SlotWanted& wanted) {
  const Copy copy = copy_of(wanted.slot);
  const UniqueFd fd = setting_.slots.open(copy);
  std::string bytes;
  if (fd && wanted.bytes <= kPartBytes && wanted.offset <= copy.slot_bytes &&
      wanted.bytes <= copy.slot_bytes - wanted.offset) {
    bytes.resize(wanted.bytes);
    if (!read_slot(fd.get(), wanted.offset, bytes.data(), bytes.size())) bytes.clear();
  }
  if (connection_->backlog_bytes() > 2 * kPartsUnderWay * kPartBytes)
    return break_off("it asks for more than it reads");
  const wire::SlotPart part{.number = wanted.number, .text = {}};
  const std::string head = wire::encode_before_text(header(), part, bytes);
  connection_->send(head, bytes);
}

void MemoryConversation::hear(const wire::SlotPart& part) {
  if (!pull_ || !pull_->is_answer(part)) return;
  if (!pull_->take(part.text.view())) {
    overtaken();
    drop_pull();
  } else if (pull_->is_complete()) {
    finish_pull();
  } else {
    ask();
  }
}

void MemoryConversation::finish_pull() {
  const Copy copy = pull_->copy();
  const Status whole = pull_->verify(setting_.is_stopped);
  if (!whole && setting_.is_stopped()) return close();
  if (whole) {
    if (!setting_.slots.take(copy, pull_->release()))
      log::warning("the copy of step {} of rank {} that node{} has is dropped: there is no more room for it",
                   copy.id.step, copy.rank, setting_.neighbour.node);
    overtaken_count_ = 0;
  } else if (setting_.slots.use_of(copy, true) == CopyKeeping::Use::kOwn) {
    setting_.on_remark(fmt::format("cannot use the copy of step {} that node{} has: {}", copy.id.step,
                                   setting_.neighbour.node, whole.error().message()));
  } else {
    overtaken();
  }
  drop_pull();
}

// Called when a slot was overwritten while it was being fetched. This happens if the fetch takes longer than
// two saves.
void MemoryConversation::overtaken() {
  log::debug("the copy of step {} of rank {} is dropped", pull_->copy().id.step, pull_->copy().rank);
  if (++overtaken_count_ == kMostOvertaken)
    setting_.on_remark(fmt::format(
        "node{} overwrites what it holds in memory before it is copied: .memory_every is too small",
        setting_.neighbour.node));
}

void MemoryConversation::drop_pull() {
  number_ = pull_->next_number();
  pull_.reset();
  pull_next();
}

// Starts to fetch the next slot that is wanted. It takes the newest step, and among the slots of that step
// the one of the lowest rank.
void MemoryConversation::pull_next() {
  while (!pull_ && !wanted_.empty()) {
    const auto next = std::ranges::max_element(wanted_, [](const Copy& one, const Copy& other) {
      return is_newer(other.id, one.id) || (one.id == other.id && one.rank > other.rank);
    });
    const Copy copy = *next;
    wanted_.erase(next);
    const auto use = setting_.slots.use_of(copy, true);
    if (use == CopyKeeping::Use::kNone || use == CopyKeeping::Use::kNoRoom) continue;
    auto fd = setting_.slots.make_room(copy);
    if (fd)
      pull_.emplace(copy, *std::move(fd), number_);
    else
      setting_.on_remark(fmt::format("rank {} is not copied: {}", copy.rank, fd.error().message()));
  }
  if (pull_) return ask();
  timer_.cancel();
  if (has_told_) setting_.on_fetched(setting_.neighbour.node);
}

void MemoryConversation::ask() {
  while (auto wanted = pull_->next()) send(*std::move(wanted));
  timer_.expires_after(kPartLimit);
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self) self->break_off(fmt::format("it has sent nothing for {} s", kPartLimit.count()));
  });
}

}  // namespace muster::agent
