// What two agents say to each other about slots that ranks hold in memory: which are complete, and their
// bytes.
//
// Both tell what they have; who wants a slot asks for one part after the other, two at a time, and takes it
// when all digests are right. A step that is overtaken by a newer one is not asked for, and one that is
// overwritten meanwhile is dropped. What is wanted, MemorySlots decides. One thread; held alive by hold().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/io/workers/memory_slots.h"
#include "common/checkpoint/memory_slot.h"
#include "common/net/connection.h"
#include "common/wire/neighbour_messages.h"

namespace muster::agent {

// A slot that comes part by part: the header, the file, what the manifest would say of it.
class SlotPull {
 public:
  // `number`: of the first question; the others follow.
  SlotPull(const Copy& copy, UniqueFd fd, std::uint64_t number)
      : copy_(copy), fd_(std::move(fd)), next_number_(number), answered_(number) {}

  const Copy& copy() const { return copy_; }
  std::uint64_t next_number() const { return next_number_; }
  // What is to be asked for now.
  std::optional<wire::SlotWanted> next();
  // Answers to questions about an earlier slot are none of this one's.
  bool is_answer(const wire::SlotPart& part) const { return part.number == answered_; }
  // False: the slot is not there any more, or it is not what was asked for.
  bool take(std::string_view bytes);
  bool is_complete() const { return header_ && taken_ == all_bytes(); }
  Status verify(const std::function<bool()>& stop) const { return verify_slot(fd_.get(), *header_, stop); }
  UniqueFd release() { return std::move(fd_); }

 private:
  // File and contents count as one behind the other.
  std::uint64_t all_bytes() const { return header_->file_bytes + header_->contents_bytes; }
  std::uint64_t bytes_at(std::uint64_t place) const;
  std::uint64_t offset_of(std::uint64_t place) const;
  bool take_header(std::string_view bytes);
  bool write(std::string_view bytes, std::uint64_t offset) const;

  Copy copy_;
  UniqueFd fd_;
  std::optional<SlotHeader> header_;
  std::uint64_t next_number_;
  std::uint64_t answered_;  // the number of the next answer
  std::uint64_t asked_ = 0;
  std::uint64_t taken_ = 0;
};

class MemoryConversation : public std::enable_shared_from_this<MemoryConversation> {
 public:
  struct Setting {
    MemorySlots& slots;
    NodeId own;
    Attempt attempt;
    wire::Neighbour neighbour;
    std::map<Rank, Copy> current;            // what this node's ranks have saved last, or go on from
    std::function<void(NodeId)> on_fetched;  // nothing is wanted now, or nothing comes any more
    std::function<void(std::string)> on_remark;
    std::function<bool()> is_stopped;
  };
  MemoryConversation(Setting setting, std::shared_ptr<net::Connection> connection,
                     const asio::any_io_executor& executor)
      : setting_(std::move(setting)), connection_(std::move(connection)), timer_(executor) {}

  // Until the connection ends.
  static awaitable<void> hold(std::shared_ptr<MemoryConversation> self);
  // A rank of this node has saved it, or goes on from there.
  void tell(const Copy& copy);
  void close();

 private:
  wire::FrameHeader header();
  void send(const wire::ToNeighbour& message);
  void hear(const wire::SlotsHeld& held);
  void hear(const wire::SlotWanted& wanted);
  void hear(const wire::SlotPart& part);
  void consider(const Copy& offered, bool is_current);
  void finish_pull();
  void ended(const Error& why);
  void break_off(std::string_view why);
  void overtaken();
  void drop_pull();
  void pull_next();
  void ask();

  Setting setting_;
  std::shared_ptr<net::Connection> connection_;
  asio::steady_timer timer_;  // of the part that is waited for
  std::vector<Copy> wanted_;
  std::optional<SlotPull> pull_;
  std::uint64_t number_ = 0;  // of the next question, while there is no pull_
  int overtaken_count_ = 0;   // since the last that came whole
  bool has_told_ = false;     // the other, what it has
  Sequence sequence_;
};

}  // namespace muster::agent
