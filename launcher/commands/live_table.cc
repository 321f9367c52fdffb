#include "launcher/commands/live_table.h"

#include <chrono>
#include <csignal>
#include <poll.h>
#include <termios.h>
#include <unistd.h>
#include <vector>

#include "common/base/color.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "launcher/core/text/plain_text.h"

namespace muster::launcher {

namespace {

constexpr auto kRedraw = std::chrono::milliseconds(1000);

std::sig_atomic_t volatile ended = 0;
void end_table(int) {
  ended = 1;
}
void wake_up(int) {}  // interrupts poll(), so that the table is drawn again

// Switches off the echo and the line buffering of the terminal. The destructor restores both.
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
  // Waits for at most `limit`. Returns true if the user pressed q in this time.
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

void draw(const std::string& sequences) {
  (void)write_all(STDOUT_FILENO, sequences, "stdout");
}

// Returns the text that draws the table in place of the last one. Names of jobs and hosts may contain control
// characters. This removes them.
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

}  // namespace

void show_live(const std::function<std::optional<std::string>()>& table) {
  struct sigaction action{};
  action.sa_handler = end_table;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = wake_up;
  sigaction(SIGWINCH, &action, nullptr);
  const Keyboard keyboard;
  draw("\033[?25l\033[2J");
  while (ended == 0) {
    const auto text = table();
    if (!text) break;
    draw(in_place(*text));
    if (keyboard.quits_within(kRedraw)) break;
  }
  draw("\033[?25h");
}

}  // namespace muster::launcher
