#include "common/net/log_parts.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace muster::net {

namespace {

constexpr std::uint64_t kPartsOfABudget = 8;
constexpr std::string_view kLogSuffix = ".log";

// Renames a file, but does not overwrite another file. Some file systems, for example NFS, do not support the
// flag for this. On such a file system, the function first checks that the target does not exist. That is
// enough, because no other process makes files in the directory.
bool rename_new(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL) return false;
  if (access(to.c_str(), F_OK) == 0) {
    errno = EEXIST;
    return false;
  }
  return rename(from.c_str(), to.c_str()) == 0;
}

}  // namespace

Status LogParts::open() {
  if (open_) return {};
  fd_.reset();
  if (std::exchange(sets_aside_, false)) rename(path_.c_str(), (path_ + ".old").c_str());
  const auto open_file = [this] {
    fd_.reset(
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (is_new_ ? O_EXCL : 0), mode_));
  };
  open_file();
  if (!fd_ && errno == ENOENT) {
    if (Status made = make_directories(std::filesystem::path(path_).parent_path().string()); !made)
      return made;
    open_file();
  }
  if (!fd_) return system_failure("cannot write " + path_, errno);
  open_ = true;
  return {};
}

Status LogParts::take_over() {
  struct stat found{};
  if (stat(path_.c_str(), &found) != 0) return system_failure("cannot read " + path_, errno);
  if (!S_ISREG(found.st_mode))
    return failure(ErrorCode::kCorrupt, "cannot read {}: not a regular file", path_);
  size_bytes_ = static_cast<std::uint64_t>(found.st_size);
  return {};
}

Status LogParts::write(std::string_view& bytes) {
  if (Status opened = open(); !opened) return opened;
  while (!bytes.empty()) {
    std::size_t size = bytes.size();
    if (budget_) {
      size = fitting(bytes);
      if (size == 0) {
        if (Status done = cut(); !done) return done;
        continue;
      }
      make_room(size);
    }
    const ssize_t put = ::write(fd_.get(), bytes.data(), size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return system_failure("cannot write " + path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(put));
    size_bytes_ += static_cast<std::uint64_t>(put);
    if (budget_) budget_->used_bytes += static_cast<std::uint64_t>(put);
  }
  return {};
}

std::size_t LogParts::fitting(std::string_view bytes) const {
  const std::uint64_t most = std::max<std::uint64_t>(budget_->limit_bytes / kPartsOfABudget, 1);
  const std::uint64_t room = size_bytes_ < most ? most - size_bytes_ : 0;
  if (bytes.size() <= room) return bytes.size();
  const std::size_t end = room > 0 ? bytes.rfind('\n', room - 1) : std::string_view::npos;
  if (end != std::string_view::npos) return end + 1;
  return size_bytes_ > 0 ? 0 : static_cast<std::size_t>(room);  // a line longer than a part
}

Status LogParts::cut() {
  const std::string part = part_path(part_count_ + 1);
  if (!rename_new(path_, part))
    return system_failure(fmt::format("cannot rename {} to {}", path_, part), errno);
  budget_->parts.push_back({part, path_, size_bytes_, cut_bytes_});
  if (const auto emptied = budget_->emptied.extract(path_)) unlink(emptied.mapped().c_str());
  ++part_count_;
  cut_bytes_ += size_bytes_;
  size_bytes_ = 0;
  open_ = false;
  return open();
}

void LogParts::make_room(std::size_t bytes) {
  while (budget_->used_bytes + bytes > budget_->limit_bytes && !budget_->parts.empty()) {
    const LogBudget::Part oldest = std::move(budget_->parts.front());
    budget_->parts.pop_front();
    budget_->used_bytes -= oldest.size_bytes;
    if (std::ranges::find(budget_->parts, oldest.file, &LogBudget::Part::file) != budget_->parts.end()) {
      unlink(oldest.path.c_str());
    } else {
      truncate(oldest.path.c_str(), 0);
      budget_->emptied[oldest.file] = oldest.path;
    }
  }
}

Expected<LogParts::Piece> LogParts::read(std::uint64_t offset, std::size_t limit_bytes) const {
  LogBudget::Part part{.path = path_, .file = path_, .size_bytes = size_bytes_, .begin_bytes = cut_bytes_};
  if (budget_) {
    const auto holds = [&](const LogBudget::Part& each) {
      return each.file == path_ && offset < each.begin_bytes + each.size_bytes;
    };
    const auto found = std::ranges::find_if(budget_->parts, holds);
    if (found != budget_->parts.end()) part = *found;
  }
  Piece piece{.offset = std::max(offset, part.begin_bytes), .bytes = {}};
  const std::uint64_t begin = piece.offset - part.begin_bytes;
  if (begin >= part.size_bytes) return piece;
  const UniqueFd fd(::open(part.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_failure("cannot read " + part.path, errno);
  piece.bytes.resize(std::min<std::uint64_t>(limit_bytes, part.size_bytes - begin));
  const ssize_t got = pread(fd.get(), piece.bytes.data(), piece.bytes.size(), static_cast<off_t>(begin));
  if (got < 0) return system_failure("cannot read " + part.path, errno);
  if (got == 0) return failure(ErrorCode::kCorrupt, "cannot read {}: it has become shorter", part.path);
  piece.bytes.resize(static_cast<std::size_t>(got));
  return piece;
}

std::string LogParts::part_path(std::uint64_t number) const {
  std::string_view stem = path_;
  if (stem.ends_with(kLogSuffix)) stem.remove_suffix(kLogSuffix.size());
  return fmt::format("{}.{}{}", stem, number, kLogSuffix);
}

}  // namespace muster::net
