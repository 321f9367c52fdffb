#include "tests/chaos/diary.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <unistd.h>

#include "common/base/clock.h"

namespace muster::chaos {

namespace {

int term_fd = -1;

// Writes "term 0 TIME" with async-signal-safe calls only; then does what TERM does by default.
void note_term(int) {
  char line[40] = "term 0 ";
  char* end = std::to_chars(line + 7, line + sizeof line - 1, to_ns(Clock::now())).ptr;
  *end++ = '\n';
  (void)!write(term_fd, line, static_cast<std::size_t>(end - line));
  (void)signal(SIGTERM, SIG_DFL);
  (void)raise(SIGTERM);
}

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

void act(const std::string& what) {
  if (what.starts_with("exit=")) std::_Exit(number<int>(std::string_view(what).substr(5)));
  if (what == "memory") {
    constexpr std::size_t kPieceBytes = 8 << 20;
    static std::vector<std::string> taken;
    for (std::size_t used = 0; used < std::size_t{1} << 30; used += kPieceBytes)
      taken.emplace_back(kPieceBytes, static_cast<char>(used));
  }
  if (what == "flood") {
    const std::string line(1000, 'x');
    for (int i = 0; i < 4000; ++i) (void)std::puts(line.c_str());
    (void)std::fflush(stdout);
  }
}

}  // namespace

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  CHECK(value != nullptr, "{} is not set", name);
  return value;
}

Diary::Diary(const std::vector<std::string>& words)
    : directory_(words.at(0)),
      steps_(number<std::uint64_t>(words.at(1))),
      save_every_(number<std::uint64_t>(words.at(2))),
      step_ms_(number<int>(words.at(3))) {
  for (std::size_t i = 4; i < words.size(); ++i) {
    const auto parts = split(words[i], ':');
    CHECK(parts.size() == 4, "{}", words[i]);
    moments_.push_back({number<int>(parts[0]), number<std::uint64_t>(parts[1]), std::string(parts[2]),
                        std::string(parts[3])});
  }
  while (marked_by_earlier_attempt(armed_count_ - 1)) ++armed_count_;
  const std::string ledger = fmt::format("{}/ledger.{}.{}", directory_, attempt_, rank_);
  ledger_.reset(open(ledger.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  CHECK(static_cast<bool>(ledger_), "{}: {}", ledger, std::strerror(errno));
  term_fd = ledger_.get();
  (void)signal(SIGTERM, note_term);
  note("start", static_cast<std::uint64_t>(getpid()));
}

void Diary::note(std::string_view what, std::uint64_t number, const std::string& more) const {
  const std::string line = fmt::format("{} {} {}{}\n", what, number, to_ns(Clock::now()), more);
  CHECK(write_all(ledger_.get(), line, "ledger").has_value());
}

bool Diary::marked_by_earlier_attempt(std::size_t moment) const {
  const auto mark = read_file(fmt::format("{}/moment.{}", directory_, moment), 4096);
  return mark && number<std::uint64_t>(split(*mark, ' ').at(2)) < attempt_.value();
}

void Diary::moment(std::string_view where, std::uint64_t step) const {
  for (std::size_t i = 0; i < std::min(armed_count_, moments_.size()); ++i) {
    const Moment& moment = moments_[i];
    if (moment.rank == rank_ && moment.where == where && step >= moment.step &&
        !exists(fmt::format("{}/moment.{}", directory_, i))) {
      let_be_hit(i);
      act(moment.what);
    }
  }
}

void Diary::let_be_hit(std::size_t index) const {
  const std::string mark = fmt::format("{}/moment.{}", directory_, index);
  const std::string go = fmt::format("{}/go.{}", directory_, index);
  const UniqueFd file(open((mark + ".new").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  const std::string text =
      fmt::format("{} {} {} {}", getpid(), getppid(), attempt_, variable("MUSTER_NODE_ID"));
  CHECK(write_all(file.get(), text, mark).has_value());
  std::filesystem::rename(mark + ".new", mark);
  const TimePoint limit = Clock::now() + std::chrono::seconds(30);
  while (!exists(go) && Clock::now() < limit) poll(nullptr, 0, 1);
}

}  // namespace muster::chaos
