// Sends this node's log files to the launcher, where its log directory is another one: read back from the
// disk piece by piece, when nothing else waits to be sent.
//
// Which piece comes next is core/output/log_sending.h's to decide. Holds one piece at a time in memory. Held
// by shared pointers; one thread. Ends with the connection.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "agent/core/output/log_sending.h"
#include "agent/io/link.h"
#include "common/net/asio.h"
#include "common/net/log_writer.h"

namespace muster::agent {

class LogCourier : public std::enable_shared_from_this<LogCourier> {
 public:
  struct Source {
    Attempt attempt;
    Rank rank;
    wire::LogFile file = wire::LogFile::kStdout;
    auto operator<=>(const Source&) const = default;
  };
  explicit LogCourier(Link& link) : link_(link) {}
  LogCourier(const LogCourier&) = delete;
  LogCourier& operator=(const LogCourier&) = delete;

  // The file is sent once something has been written to it.
  void add(const Source& source, std::shared_ptr<net::LogWriter::File> file);
  // The same of a file that another start of this node's agent has left.
  void add_left(const Source& source, std::shared_ptr<net::LogWriter::File> file);
  // Nothing more is put into the attempt's files.
  void attempt_ends(Attempt attempt);
  void taken(Attempt attempt, const wire::LogTaken& taken);
  // The launcher has all that has been written. If not, `on_done` hears of it, once.
  bool done();
  void call_when_done(std::function<void()> on_done) { on_done_ = std::move(on_done); }
  // Looks every now and then what has been written, until the connection is closed. Keeps this object alive.
  awaitable<void> run();

 private:
  struct Entry {
    std::shared_ptr<net::LogWriter::File> file;
    std::optional<LogSending::File> number{};  // once something has been written
    bool ended = false;
    bool left = false;  // by another agent: the launcher may not want it, because it is another node's
  };
  using Entries = std::map<Source, Entry>;

  void look();
  bool look_at(Entry& entry);
  void send_more();
  void read_back(const Source& source, Expected<net::LogParts::Piece> piece);
  const Source* source_of(LogSending::File number) const;

  Link& link_;
  LogSending sending_;
  Entries entries_;
  bool reading_ = false;
  std::function<void()> on_done_;
};

}  // namespace muster::agent
