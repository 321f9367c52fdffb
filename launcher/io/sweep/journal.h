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
  // Makes the directory and a journal with these events. After a crash during this call the directory has no
  // journal. kInvalidArgument: the directory has one already, or is on a network file system, where two hosts
  // would not see each other's locks. kFenced: another process is the controller.
  static Expected<Journal> create(const std::string& directory, const nlohmann::ordered_json& definition,
                                  std::span<const Event> events = {});
  // For the controller that continues the sweep. kNotFound: the directory has no journal. kCorrupt: the file
  // is damaged.
  static Expected<Journal> open(const std::string& directory);
  // For everybody else, also while a controller writes and from a directory that may only be read.
  static Expected<Journal> read(const std::string& directory);

  // Returns when the disk has the event. After an error, end the sweep: a later open() finds the event or
  // does not.
  Status add(const Event& event) { return add(std::span(&event, 1)); }
  // Does the same for several events, with one wait for the disk. After a crash the journal has all of them
  // or none.
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

// The name of a network file system with this magic number (statfs(2)), such as "NFS"; empty: it is local.
std::string_view network_file_system(std::int64_t magic);

}  // namespace muster::launcher::sweep
