// `launch top`: a live table of the ranks, with their progress and usage.
#include "launcher/core/view/top.h"

#include <csignal>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <thread>
#include <unistd.h>

#include "common/base/color.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "launcher/commands/conversation.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/text/plain_text.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

namespace {

constexpr Duration kTableLimit = std::chrono::seconds(10);
constexpr auto kRedraw = std::chrono::milliseconds(1000);
// With --once: the pause between requests, and the limit for all. Agents report usage once a second, and the
// share of processor time needs two reports.
constexpr auto kPause = std::chrono::milliseconds(200);
constexpr Duration kUsageLimit = std::chrono::seconds(4);

std::sig_atomic_t volatile ended = 0;
void end_top(int) {
  ended = 1;
}
void wake_up(int) {}  // interrupts poll(), so that the table is drawn again

Expected<JobStatus> ask(const JobEntry& job) {
  auto conversation = Conversation::ask(job, R"({"command": "top"})");
  if (!conversation) return std::unexpected(conversation.error());
  const auto line = conversation->next(kTableLimit);
  if (!line) return std::unexpected(line.error());
  if (!*line)
    return failure(ErrorCode::kUnavailable, "the launcher closed the connection: the job has just ended");
  return parse_status(**line);
}

// Switches off the terminal's echo and line buffering; restores both at the end.
class Keyboard {
 public:
  Keyboard() : usable_(isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!usable_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  Keyboard(const Keyboard&) = delete;
  Keyboard& operator=(const Keyboard&) = delete;
  ~Keyboard() {
    if (usable_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  // Waits up to `limit`. True if the user pressed q.
  bool quits_within(std::chrono::milliseconds limit) const {
    pollfd key{usable_ ? STDIN_FILENO : -1, POLLIN, 0};
    if (poll(&key, 1, static_cast<int>(limit.count())) <= 0) return false;
    char letter = 0;
    const ssize_t size = read(STDIN_FILENO, &letter, 1);
    return size == 0 || (size == 1 && (letter == 'q' || letter == 'Q'));
  }

 private:
  termios before_{};
  bool usable_;
};

Screen screen() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) size = {};
  // The last row is for the cursor.
  const std::size_t rows = size.ws_row > 1 ? size.ws_row - 1U : 0U;
  return {.columns = terminal_columns(), .rows = rows, .bold = colors_wanted()};
}

// Call when the job does not answer: prints how the job ended, or the error if it has not ended.
int say_why_it_is_silent(const JobEntry& job, const CommandArguments& arguments, const Invocation& invocation,
                         const Error& error) {
  const auto now = find_job(arguments, invocation.here, Preferred::kRunning);
  if (!now || now->record.job_id != job.record.job_id || !now->exit_code) return refuse(error, 1);
  return print(fmt::format("{} {}\n", job.record.job_id, end_of(*now)));
}

void draw(const std::string& sequences) {
  (void)write_all(STDOUT_FILENO, sequences, "stdout");
}

// The sequences that draw the table over the last one. Names of jobs and hosts may contain control
// characters, which this removes.
std::string in_place(const std::string& table) {
  std::string drawn = "\033[H";
  std::vector<std::string_view> lines = split(table, '\n');
  lines.pop_back();
  for (const std::string_view line : lines) {
    std::string shown = for_terminal(std::string(line) + "\n", colors_wanted());
    shown.pop_back();
    drawn += shown + "\033[K\n";
  }
  return drawn + "\033[J";
}

int watch(const JobEntry& job, const CommandArguments& arguments, const Invocation& invocation) {
  struct sigaction action{};
  action.sa_handler = end_top;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = wake_up;
  sigaction(SIGWINCH, &action, nullptr);
  const Keyboard keyboard;
  std::optional<JobStatus> before;
  draw("\033[?25l\033[2J");
  while (ended == 0) {
    auto status = ask(job);
    if (!status) {
      draw("\033[?25h");
      return say_why_it_is_silent(job, arguments, invocation, status.error());
    }
    draw(in_place(top_as_text(*status, before, screen())));
    before = *std::move(status);
    if (keyboard.quits_within(kRedraw)) break;
  }
  draw("\033[?25h");
  return 0;
}

// Prints the table when all ranks have fresh usage, or after kUsageLimit without it.
int show_once(const JobEntry& job, bool json) {
  const TimePoint limit = Clock::now() + kUsageLimit;
  std::optional<JobStatus> before;
  for (;;) {
    const auto status = ask(job);
    if (!status) return refuse(status.error(), 1);
    const bool renewed =
        before && knows_usage(*status) &&
        std::ranges::equal(status->ranks, before->ranks, [](const RankStatus& now, const RankStatus& then) {
          return !now.usage || (then.usage && then.usage->age_ns < now.usage->age_ns);
        });
    if (renewed || Clock::now() >= limit)
      return print(json ? top_as_json(*status, before)
                        : top_as_text(*status, before, {.columns = terminal_columns()}));
    if (!before && knows_usage(*status)) before = *status;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

int top(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto job = find_job(*arguments, invocation.here, Preferred::kRunning);
  if (!job) return refuse(job.error(), kExitUsage);
  if (job->exit_code || job->state == JobEntry::State::kLost) {
    if (arguments->has("json")) return print(jobs_as_json({*job}));
    return print(fmt::format("{} {}\n", job->record.job_id, end_of(*job)));
  }
  if (arguments->has("once") || arguments->has("json") || isatty(STDOUT_FILENO) != 1)
    return show_once(*job, arguments->has("json"));
  return watch(*job, *arguments, invocation);
}

}  // namespace muster::launcher
