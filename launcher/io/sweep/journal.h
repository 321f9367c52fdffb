// The journal of a sweep: its definition and its events, in DIRECTORY/sweep.db.
//
// The file is an SQLite database in WAL mode, so others may read while the controller writes. One process,
// the controller, may write: it holds the lock of controller_lock.h. Functions block while the disk does. One
// thread at a time. Errors are one line that names the file.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "launcher/core/sweep/history/history.h"
#include "launcher/io/sweep/controller_lock.h"

struct sqlite3;

namespace muster::launcher::sweep {

class Journal {
 public:
  // Makes the directory, and in it a journal with these events. If the process dies before create() returns,
  // the directory has no journal. Returns kInvalidArgument if the directory already has a journal. Also
  // returns kInvalidArgument for a network file system, because there two hosts would not see each other's
  // locks. Returns kFenced if another process is the controller.
  static Expected<Journal> create(const std::string& directory, const nlohmann::ordered_json& definition,
                                  std::span<const Event> events = {});
  // Opens the journal for the controller that continues the sweep. Returns kNotFound if the directory has no
  // journal, and kCorrupt if the file is damaged.
  static Expected<Journal> open(const std::string& directory);
  // Opens the journal for everybody except the controller. This works while a controller writes, and even if
  // the directory may only be read.
  static Expected<Journal> read(const std::string& directory);

  // Returns when the event is on the disk. If this fails, the sweep has to end. It is not known whether the
  // event is in the journal, but a later open() finds out.
  Status add(const Event& event) { return add(std::span(&event, 1)); }
  // Adds several events, and waits for the disk only once. After a crash, the journal has all of them or
  // none.
  Status add(std::span<const Event> events);

  // All events so far, in order.
  Expected<std::vector<Event>> events() const;
  Expected<nlohmann::ordered_json> definition() const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  using Database = std::unique_ptr<sqlite3, Close>;
  Journal(std::string path, Database database, std::optional<ControllerLock> lock)
      : path_(std::move(path)), lock_(std::move(lock)), database_(std::move(database)) {}
  static Expected<Database> opened(const std::string& path, int flags);
  static Status fill(const std::string& path, const nlohmann::ordered_json& definition,
                     std::span<const Event> events);

  std::string path_;
  std::optional<ControllerLock> lock_;  // outlives the connection
  Database database_;
};

// Returns the name of a network file system, such as "NFS", from its magic number (statfs(2)). Returns an
// empty text if the file system is local.
std::string_view network_file_system(std::int64_t magic);

}  // namespace muster::launcher::sweep
