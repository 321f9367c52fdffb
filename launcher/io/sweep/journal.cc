#include "launcher/io/sweep/journal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/text.h"
#include "launcher/core/text/words.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher::sweep {

namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kFormat = 1;
// Other processes hold some locks only for a moment, while one of them recovers the file after a crash. This
// is how long to wait for such a lock.
constexpr int kLongestWaitMilliseconds = 10'000;
constexpr int kDeepestJson = 64;

constexpr const char* kTables =
    "CREATE TABLE sweep (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE events (number INTEGER PRIMARY KEY, time REAL NOT NULL, event TEXT NOT NULL);";

std::string database_path(const std::string& directory) {
  return directory + "/sweep.db";
}

// `error_number` is the errno of access() to the journal.
std::unexpected<Error> no_journal(const std::string& directory, int error_number) {
  if (error_number != ENOENT && error_number != ENOTDIR)
    return system_failure("cannot open " + database_path(directory), error_number);
  return failure(ErrorCode::kNotFound, "{} is not a sweep's directory: it has no sweep.db", directory);
}

std::unexpected<Error> damaged(const std::string& path, std::string_view how) {
  return failure(ErrorCode::kCorrupt,
                 "{} is damaged ({}): use a copy of it, or begin the sweep anew in another directory", path,
                 how);
}

// Returns an error about the last call on this connection, which failed.
std::unexpected<Error> sqlite_failure(sqlite3* database, std::string_view verb, const std::string& path) {
  constexpr int kPrimary = 0xFF;
  const int code = sqlite3_extended_errcode(database) & kPrimary;
  const int cause = sqlite3_system_errno(database);
  const std::string what = fmt::format("cannot {} {}", verb, path);
  if (code == SQLITE_FULL || (code == SQLITE_IOERR && (cause == ENOSPC || cause == EDQUOT)))
    return failure(ErrorCode::kInternal, "{}: the disk is full: make room, then resume the sweep", what);
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) return damaged(path, sqlite3_errmsg(database));
  if (code == SQLITE_READONLY || code == SQLITE_PERM)
    return failure(ErrorCode::kPermission, "{}: this user may only read it", what);
  if ((code == SQLITE_IOERR || code == SQLITE_CANTOPEN) && cause != 0) return system_failure(what, cause);
  return failure(ErrorCode::kInternal, "{}: {}", what, sqlite3_errmsg(database));
}

// One prepared statement.
class Statement {
 public:
  Statement(sqlite3* database, const char* text) {
    result_ = sqlite3_prepare_v2(database, text, -1, &statement_, nullptr);
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  void bind(int at, std::int64_t number) { keep(sqlite3_bind_int64(statement_, at, number)); }
  void bind(int at, double number) { keep(sqlite3_bind_double(statement_, at, number)); }
  // `text` outlives the next step.
  void bind(int at, std::string_view text) {
    keep(sqlite3_bind_text64(statement_, at, text.data(), text.size(), nullptr, SQLITE_UTF8));
  }
  // Steps to the next row. Returns false if there is none, or if failed() is true.
  bool step() {
    if (result_ == SQLITE_OK || result_ == SQLITE_ROW) result_ = sqlite3_step(statement_);
    return result_ == SQLITE_ROW;
  }
  bool failed() const { return result_ != SQLITE_OK && result_ != SQLITE_ROW && result_ != SQLITE_DONE; }
  void again() { result_ = sqlite3_reset(statement_); }
  std::int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string_view text(int column) const {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return {bytes == nullptr ? "" : bytes,
            static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
  }

 private:
  void keep(int result) {
    if (result_ == SQLITE_OK) result_ = result;
  }
  sqlite3_stmt* statement_ = nullptr;
  int result_ = SQLITE_OK;
};

Status execute(sqlite3* database, const std::string& path, const char* text) {
  if (sqlite3_exec(database, text, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return sqlite_failure(database, "write", path);
}

// Returns the only value of the only row that the query finds. Returns nullopt if it finds no row.
Expected<std::optional<std::string>> value_of_query(sqlite3* database, const std::string& path,
                                                    const char* query) {
  Statement statement(database, query);
  std::optional<std::string> value;
  if (statement.step()) value = statement.text(0);
  if (statement.failed()) return sqlite_failure(database, "read", path);
  return value;
}

// Returns nullopt if the text is not JSON. Also returns nullopt if it is nested so deeply that to copy it
// would overflow the stack.
std::optional<ordered_json> parsed(std::string_view text) {
  bool too_deep = false;
  const auto limit = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
    too_deep = too_deep || depth > kDeepestJson;
    return !too_deep;
  };
  ordered_json json = ordered_json::parse(text, limit, false);
  if (too_deep || json.is_discarded()) return std::nullopt;
  return json;
}

std::string dumped(const ordered_json& json) {
  // The program's arguments may be in any encoding.
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Status insert(sqlite3* database, const std::string& path, std::span<const Event> events) {
  // The events are numbered without gaps. So readers notice if a row is missing.
  Statement put(database,
                "INSERT INTO events VALUES ((SELECT coalesce(max(number), 0) + 1 FROM events), ?1, ?2)");
  const double time = unix_now();
  for (const Event& event : events) {
    const std::string text = dumped(event_as_json(event));
    put.bind(1, time);
    put.bind(2, std::string_view(text));
    put.step();
    if (put.failed()) return sqlite_failure(database, "write", path);
    put.again();
  }
  return {};
}

Status check_local(const std::string& directory) {
  struct statfs found = {};
  if (statfs(directory.c_str(), &found) != 0) return system_failure("cannot use " + directory, errno);
  const std::string_view name = network_file_system(static_cast<std::int64_t>(found.f_type));
  if (name.empty()) return {};
  return failure(ErrorCode::kInvalidArgument,
                 "{} is on a network file system ({}), where a sweep's journal is not safe: "
                 "choose a directory on a disk of this machine for it; checkpoints may stay where they are",
                 directory, name);
}

Status check_format(sqlite3* database, const std::string& path) {
  const auto has_tables =
      value_of_query(database, path, "SELECT count(*) FROM sqlite_master WHERE name IN ('sweep', 'events')");
  if (!has_tables) return std::unexpected(has_tables.error());
  if (*has_tables != "2") return failure(ErrorCode::kCorrupt, "{} is not the journal of a sweep", path);
  const auto text = value_of_query(database, path, "SELECT value FROM sweep WHERE key = 'format'");
  if (!text) return std::unexpected(text.error());
  const auto format = parse_number<std::int64_t>(text->value_or(""));
  if (!format) return damaged(path, "it has no format number");
  if (*format <= kFormat) return {};
  return failure(
      ErrorCode::kInvalidArgument,
      "{}: it has format {}, and this version of Muster reads up to {}: use the version that wrote it", path,
      *format, kFormat);
}

// As SQLite reads it in a URI.
std::string uri_of(const std::string& path, std::string_view parameters) {
  std::string uri = "file:";
  for (const char letter : path) {
    if (letter == '%' || letter == '?' || letter == '#')
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(letter));
    else
      uri += letter;
  }
  return uri + "?" + std::string(parameters);
}

}  // namespace

void Journal::Close::operator()(sqlite3* database) const {
  sqlite3_close_v2(database);
}

Expected<Journal::Database> Journal::opened(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int result = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_EXRESCODE, nullptr);
  Database database(raw);
  if (result != SQLITE_OK) return sqlite_failure(raw, "open", path);
  sqlite3_busy_timeout(raw, kLongestWaitMilliseconds);
  if ((flags & SQLITE_OPEN_READWRITE) == 0) return database;
  // With a lower value, SQLite would not wait for the disk at each commit.
  if (const auto set = execute(raw, path, "PRAGMA synchronous=FULL"); !set)
    return std::unexpected(set.error());
  return database;
}

namespace {

Status sync_content(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || fdatasync(file.get()) != 0) return system_failure("cannot write " + path, errno);
  return {};
}

}  // namespace

// The new file is first written under another name. So a crash never leaves half a journal.
Expected<Journal> Journal::create(const std::string& directory, const ordered_json& definition,
                                  std::span<const Event> events) {
  if (const auto made = make_directories_durably(directory); !made) return std::unexpected(made.error());
  if (const auto local = check_local(directory); !local) return std::unexpected(local.error());
  auto lock = ControllerLock::take(directory);
  if (!lock) return std::unexpected(std::move(lock).error());
  const std::string path = database_path(directory);
  if (access(path.c_str(), F_OK) == 0)
    return failure(ErrorCode::kInvalidArgument,
                   "{} has a sweep already: resume it, or choose another directory", directory);
  if (access((directory + "/trials").c_str(), F_OK) == 0)  // whose checkpoints would be taken for this one's
    return failure(ErrorCode::kInvalidArgument,
                   "{} has trials of another sweep: remove {}/trials, or choose another directory", directory,
                   directory);
  const std::string unfinished = path + ".new";
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) unlink((unfinished + suffix).c_str());
  Status filled = fill(unfinished, definition, events);
  if (filled) filled = sync_content(unfinished);
  if (!filled) {
    unlink(unfinished.c_str());
    return std::unexpected(filled.error());
  }
  if (std::rename(unfinished.c_str(), path.c_str()) != 0)
    return system_failure(fmt::format("cannot rename {} to {}", unfinished, path), errno);
  if (const auto synced = sync_directory(directory); !synced) return std::unexpected(synced.error());
  auto database = opened(path, SQLITE_OPEN_READWRITE);
  if (!database) return std::unexpected(std::move(database).error());
  return Journal(path, std::move(*database), std::move(*lock));
}

Status Journal::fill(const std::string& path, const ordered_json& definition, std::span<const Event> events) {
  auto database = opened(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!database) return std::unexpected(std::move(database).error());
  sqlite3* const raw = database->get();
  // The file gets its name only after create() has synced it. So SQLite need not wait for the disk while it
  // makes the tables, which it would do eight times.
  if (auto set = execute(raw, path, "PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY"); !set) return set;
  const std::string begin = std::string("BEGIN;") + kTables;
  if (auto made = execute(raw, path, begin.c_str()); !made) return made;
  {
    Statement put(raw, "INSERT INTO sweep VALUES ('format', ?1), ('definition', ?2)");
    const std::string format = std::to_string(kFormat);
    const std::string text = dumped(definition);
    put.bind(1, std::string_view(format));
    put.bind(2, std::string_view(text));
    put.step();
    if (put.failed()) return sqlite_failure(raw, "write", path);
  }
  if (auto added = insert(raw, path, events); !added) return added;
  if (auto committed = execute(raw, path, "COMMIT"); !committed) return committed;
  const auto mode = value_of_query(raw, path, "PRAGMA journal_mode=WAL");
  if (!mode) return std::unexpected(mode.error());
  if (*mode != "wal")
    return failure(ErrorCode::kInternal, "cannot write {}: SQLite's WAL mode does not work here", path);
  return {};
}

Expected<Journal> Journal::open(const std::string& directory) {
  const std::string path = database_path(directory);
  if (access(path.c_str(), F_OK) != 0) return no_journal(directory, errno);
  if (const auto local = check_local(directory); !local) return std::unexpected(local.error());
  auto lock = ControllerLock::take(directory);
  if (!lock) return std::unexpected(std::move(lock).error());
  auto database = opened(path, SQLITE_OPEN_READWRITE);
  if (!database) return std::unexpected(std::move(database).error());
  if (const auto known = check_format(database->get(), path); !known) return std::unexpected(known.error());
  if (sqlite3_db_readonly(database->get(), "main") != 0)
    return failure(ErrorCode::kPermission, "cannot write {}: this user may only read it", path);
  const auto check = value_of_query(database->get(), path, "PRAGMA quick_check(1)");
  if (!check) return std::unexpected(check.error());
  if (*check != "ok") return damaged(path, first_line(check->value_or("no result of the check")));
  return Journal(path, std::move(*database), std::move(*lock));
}

Expected<Journal> Journal::read(const std::string& directory) {
  const std::string path = database_path(directory);
  if (access(path.c_str(), F_OK) != 0) return no_journal(directory, errno);
  if (const auto local = check_local(directory); !local) return std::unexpected(local.error());
  auto database = opened(path, SQLITE_OPEN_READONLY);
  if (!database) return std::unexpected(std::move(database).error());
  auto known = check_format(database->get(), path);
  // In WAL mode, SQLite uses two more files. While somebody writes, these files exist. If they do not exist,
  // a reader has to make them. If this reader may not make files here, it opens the database without them:
  // nobody writes, so this file alone is the whole journal.
  const bool may_not = !known && access(directory.c_str(), W_OK) != 0;
  if (may_not && access((path + "-wal").c_str(), F_OK) != 0) {
    database = opened(uri_of(path, "immutable=1"), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
    if (!database) return std::unexpected(std::move(database).error());
    known = check_format(database->get(), path);
  }
  if (!known) return std::unexpected(known.error());
  return Journal(path, std::move(*database), std::nullopt);
}

Status Journal::add(std::span<const Event> events) {
  if (events.empty()) return {};
  sqlite3* const raw = database_.get();
  if (auto begun = execute(raw, path_, "BEGIN IMMEDIATE"); !begun) return begun;
  Status added = insert(raw, path_, events);
  if (added) added = execute(raw, path_, "COMMIT");
  if (!added) sqlite3_exec(raw, "ROLLBACK", nullptr, nullptr, nullptr);
  return added;
}

Expected<std::vector<Event>> Journal::events() const {
  Statement rows(database_.get(), "SELECT number, event FROM events ORDER BY number");
  std::vector<Event> events;
  while (rows.step()) {
    const std::int64_t number = rows.number(0);
    if (number != static_cast<std::int64_t>(events.size()) + 1)
      return damaged(path_, fmt::format("event {} is missing", events.size() + 1));
    const auto json = parsed(rows.text(1));
    if (!json) return damaged(path_, fmt::format("event {} is not JSON", number));
    auto event = event_from_json(*json);
    if (!event) return damaged(path_, fmt::format("event {}: {}", number, event.error().message()));
    events.push_back(std::move(*event));
  }
  if (rows.failed()) return sqlite_failure(database_.get(), "read", path_);
  return events;
}

Expected<ordered_json> Journal::definition() const {
  const auto text =
      value_of_query(database_.get(), path_, "SELECT value FROM sweep WHERE key = 'definition'");
  if (!text) return std::unexpected(text.error());
  auto json = *text ? parsed(**text) : std::nullopt;
  if (!json) return damaged(path_, "its definition is not JSON");
  return *std::move(json);
}

std::string_view network_file_system(std::int64_t magic) {
  struct Known {
    std::uint32_t magic;
    std::string_view name;
  };
  // The numbers are those of statfs(2) and of linux/magic.h. For BeeGFS, GPFS and Lustre they come from the
  // sources of these file systems.
  static constexpr std::array kKnown = {
      Known{0x6969, "NFS"},        Known{0x517B, "SMB"},        Known{0xFF534D42, "CIFS"},
      Known{0xFE534D42, "SMB2"},   Known{0x0BD00BD3, "Lustre"}, Known{0x19830326, "BeeGFS"},
      Known{0x00C36400, "CephFS"}, Known{0x01021997, "9p"},     Known{0x65735546, "FUSE, such as sshfs"},
      Known{0x47504653, "GPFS"},   Known{0x5346414F, "AFS"},    Known{0x6B414653, "AFS"},
      Known{0x7461636F, "OCFS2"},  Known{0x01161970, "GFS2"},   Known{0x73757245, "Coda"},
      Known{0xAAD7AAEA, "PanFS"},
  };
  // f_type is signed and may be sign-extended.
  const auto found = std::ranges::find(kKnown, static_cast<std::uint32_t>(magic), &Known::magic);
  return found == kKnown.end() ? std::string_view() : found->name;
}

}  // namespace muster::launcher::sweep
