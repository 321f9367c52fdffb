// One connection between two agents. Over it, each agent tells the other which complete slots in memory it
// has (memory_slots.h), and fetches slots of the other.
//
// An agent that wants a slot asks for its parts, two at a time. In the end it checks all digests, and keeps
// the slot only if they are right. It does not ask for a step that a newer step has replaced. If the slot is
// overwritten while it is being sent, the agent drops the parts that it has received. MemorySlots decides
// which slots to fetch. One thread. hold() keeps the object alive.
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

// A slot that is received part by part. It consists of the header, the file, and a text that describes the
// file's contents as a manifest does.
class SlotPull {
 public:
  // This object numbers its questions: the first one gets `number`, the next one `number + 1`, and so on.
  SlotPull(const Copy& copy, UniqueFd fd, std::uint64_t number)
      : copy_(copy), fd_(std::move(fd)), next_number_(number), answered_(number) {}

  const Copy& copy() const { return copy_; }
  std::uint64_t next_number() const { return next_number_; }
  // Returns the next part to ask for, if any.
  std::optional<wire::SlotWanted> next();
  // Returns whether `part` is the answer that has to come next. If it answers a question about an earlier
  // slot, it is not.
  bool is_answer(const wire::SlotPart& part) const { return part.number == answered_; }
  // Takes the next part of the slot. Returns false if the other agent no longer has the slot, or if the part
  // belongs to another slot than the wanted one.
  bool take(std::string_view bytes);
  bool is_complete() const { return header_ && taken_ == all_bytes(); }
  Status verify(const std::function<bool()>& stop) const { return verify_slot(fd_.get(), *header_, stop); }
  UniqueFd release() { return std::move(fd_); }

 private:
  // Returns the size of the file and the contents together, as if one followed the other.
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
    std::map<Rank, Copy> current;            // the slots that this node's ranks saved last, or resume from
    std::function<void(NodeId)> on_fetched;  // called when no slot is wanted any more, or no more will come
    std::function<void(std::string)> on_remark;
    std::function<bool()> is_stopped;
  };
  MemoryConversation(Setting setting, std::shared_ptr<net::Connection> connection,
                     const asio::any_io_executor& executor)
      : setting_(std::move(setting)), connection_(std::move(connection)), timer_(executor) {}

  // Runs until the connection ends.
  static awaitable<void> hold(std::shared_ptr<MemoryConversation> self);
  // Tells the neighbour about a slot of this node. Call this when the slot's rank has saved it or resumes
  // from it.
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
  asio::steady_timer timer_;  // for the next expected part
  std::vector<Copy> wanted_;
  std::optional<SlotPull> pull_;
  std::uint64_t number_ = 0;  // of the next question, while pull_ is empty
  int overtaken_count_ = 0;   // overwritten slots since the last complete one
  bool has_told_ = false;     // the neighbour knows which slots this agent has
  Sequence sequence_;
};

}  // namespace muster::agent
