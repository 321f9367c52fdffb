// Sends this node's log files to the launcher if the launcher's log directory is another one. It reads them
// back from the disk, piece by piece, at times when nothing else waits to be sent.
//
// core/output/log_sending.h decides which piece is next. One piece at a time is in memory. The object is held
// by shared pointers and used on one thread. It ends with the connection.
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

  // Sends the file, but only when something has been written to it.
  void add(const Source& source, std::shared_ptr<net::LogWriter::File> file);
  // Does the same as add(), but for a file that an earlier agent of this node has left.
  void add_left(const Source& source, std::shared_ptr<net::LogWriter::File> file);
  // The attempt's files are complete.
  void attempt_ends(Attempt attempt);
  void taken(Attempt attempt, const wire::LogTaken& taken);
  // Returns whether the launcher has everything that was written. If it does not, the function that was
  // passed to call_when_done() is called once, as soon as it does.
  bool done();
  void call_when_done(std::function<void()> on_done) { on_done_ = std::move(on_done); }
  // Looks from time to time how much has been written, until the connection is closed. The task keeps this
  // object alive.
  awaitable<void> run();

 private:
  struct Entry {
    std::shared_ptr<net::LogWriter::File> file;
    std::optional<LogSending::File> number{};  // once something has been written
    bool ended = false;
    bool left = false;  // by an earlier agent, perhaps of another node; then the launcher refuses it
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
