// Sends this node's log files to the launcher, if the launcher's log directory is another one: reads them
// back from disk piece by piece, when nothing else waits to be sent.
//
// core/output/log_sending.h decides which piece is next. Holds one piece at a time in memory. Held by shared
// pointers; one thread. Ends with the connection.
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

  // Sends the file once something has been written to it.
  void add(const Source& source, std::shared_ptr<net::LogWriter::File> file);
  // Like add(), for a file that an earlier agent of this node has left.
  void add_left(const Source& source, std::shared_ptr<net::LogWriter::File> file);
  // The attempt's files are complete.
  void attempt_ends(Attempt attempt);
  void taken(Attempt attempt, const wire::LogTaken& taken);
  // Whether the launcher has everything that was written. If not, the function given to call_when_done() is
  // called once, when it has.
  bool done();
  void call_when_done(std::function<void()> on_done) { on_done_ = std::move(on_done); }
  // Checks from time to time what has been written, until the connection is closed. Keeps this object alive.
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
