#include "launcher/commands/log_stream.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <unistd.h>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kStreamPieceBytes = std::size_t{256} << 10;

bool same_file(const struct stat& left, const struct stat& right) {
  return left.st_ino == right.st_ino && left.st_dev == right.st_dev;
}

bool unchanged(const struct stat& before, const struct stat& now) {
  return same_file(before, now) && before.st_size == now.st_size &&
         before.st_mtim.tv_sec == now.st_mtim.tv_sec && before.st_mtim.tv_nsec == now.st_mtim.tv_nsec;
}

// "stdout.12.log", 12
std::optional<std::uint64_t> part_number(std::string_view file, std::string_view name) {
  constexpr std::string_view kSuffix = ".log";
  if (!file.starts_with(name) || !file.ends_with(kSuffix)) return std::nullopt;
  file.remove_prefix(name.size());
  if (file.size() <= kSuffix.size() + 1 || file.front() != '.') return std::nullopt;
  return parse_number<std::uint64_t>(file.substr(1, file.size() - 1 - kSuffix.size()));
}

}  // namespace

bool LogStream::exists() const {
  struct stat status{};
  return stat(path().c_str(), &status) == 0 || !parts().empty();
}

std::vector<LogStream::Part> LogStream::parts() const {
  std::vector<Part> found;
  std::error_code error;
  std::filesystem::directory_iterator next(directory_, error);
  for (; !error && next != std::filesystem::directory_iterator(); next.increment(error)) {
    const auto number = part_number(next->path().filename().string(), name_);
    Part part{number.value_or(0), next->path().string()};
    if (number && stat(part.path.c_str(), &part.status) == 0) found.push_back(std::move(part));
  }
  std::ranges::sort(found, {}, &Part::number);
  return found;
}

Status LogStream::read(const OnBytes& on_bytes, std::uint64_t limit_bytes) {
  left_bytes_ = limit_bytes;
  for (;;) {
    struct stat now{};
    if (stat(path().c_str(), &now) == 0 && unchanged(last_, now)) return {};
    const UniqueFd current(open(path().c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!current && errno != ENOENT) return system_failure("cannot read " + path(), errno);
    if (current && fstat(current.get(), &now) != 0) return system_failure("cannot read " + path(), errno);
    const std::vector<Part> cut_off = parts();
    // Between fstat() and parts(), the agent may have cut the file off. Then the file that is open is now one
    // of the parts.
    const bool was_cut = current && std::ranges::any_of(cut_off, [&](const Part& part) {
                           return same_file(part.status, now);
                         });
    if (Status done = read_parts(cut_off, on_bytes); !done) return done;
    if (left_bytes_ == 0) return {};
    if (was_cut) continue;
    if (!current) return {};
    if (Status done = read_rest(current.get(), path(), on_bytes); !done) return done;
    if (left_bytes_ == 0) return {};
    last_ = now;  // if the file has grown since fstat(), the next stat() differs from this
    return {};
  }
}

Status LogStream::read_parts(const std::vector<Part>& parts, const OnBytes& on_bytes) {
  if (number_ == 0) number_ = 1;
  for (const Part& part : parts) {
    if (part.number < number_) continue;
    const bool is_next = part.number == number_;
    if (!is_next) {
      has_gap_ = true;
      offset_ = 0;
      number_ = part.number;
    }
    const UniqueFd fd(open(part.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!fd && errno != ENOENT) return system_failure("cannot read " + part.path, errno);
    struct stat now{};
    // With --log-limit the agent empties old parts. An empty part has lost its lines.
    if (!fd || fstat(fd.get(), &now) != 0 || now.st_size == 0) {
      has_gap_ = true;
    } else if (Status done = read_rest(fd.get(), part.path, on_bytes); !done) {
      return done;
    }
    if (left_bytes_ == 0) return {};
    ++number_;
    offset_ = 0;
  }
  return {};
}

Status LogStream::read_rest(int fd, const std::string& path, const OnBytes& on_bytes) {
  std::string piece(kStreamPieceBytes, '\0');
  while (left_bytes_ > 0) {
    const std::size_t most = std::min<std::uint64_t>(piece.size(), left_bytes_);
    const ssize_t got = pread(fd, piece.data(), most, static_cast<off_t>(offset_));
    if (got < 0) return system_failure("cannot read " + path, errno);
    if (got == 0) return {};
    offset_ += static_cast<std::uint64_t>(got);
    left_bytes_ -= static_cast<std::uint64_t>(got);
    struct stat status{};
    fstat(fd, &status);
    on_bytes(std::string_view(piece).substr(0, static_cast<std::size_t>(got)),
             static_cast<double>(status.st_mtim.tv_sec));
  }
  return {};
}

}  // namespace muster::launcher
