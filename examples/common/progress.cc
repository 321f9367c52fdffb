#include "examples/common/progress.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kLine = std::chrono::seconds(5);
constexpr std::int64_t kMeanSteps = 50;

}  // namespace

bool is_trained(bool shown, std::int64_t resumed, std::int64_t total_steps) {
  if (resumed < total_steps) return false;
  if (shown)
    std::printf("nothing is left to train: all %ld steps are done\n", static_cast<long>(total_steps));
  return true;
}

Progress::Progress(bool shown, std::int64_t first_step, std::int64_t total_steps,
                   std::int64_t images_per_step)
    : shown_(shown),
      terminal_(isatty(STDOUT_FILENO) == 1),
      first_step_(first_step),
      total_steps_(total_steps),
      images_per_step_(images_per_step) {}

Progress::~Progress() {
  if (shown_ && terminal_ && printed_ != started_) std::fputs("\n", stdout);
}

void Progress::after_step(std::int64_t step, double loss) {
  if (!shown_) return;
  const auto weight = static_cast<double>(std::min(step - first_step_, kMeanSteps));
  mean_loss_ += (loss - mean_loss_) / weight;
  const auto now = Clock::now();
  const bool due = now - printed_ >= (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kLine));
  if (due || step == total_steps_) print(step, now);
}

void Progress::print(std::int64_t step, Clock::time_point now) {
  printed_ = now;
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const double steps_per_second = static_cast<double>(step - first_step_) / seconds;
  const auto left = static_cast<long>(static_cast<double>(total_steps_ - step) / steps_per_second);
  std::printf("%sstep %ld/%ld  loss %.4f  %.0f samples/s  %ld:%02ld left%s", terminal_ ? "\r\033[K" : "",
              static_cast<long>(step), static_cast<long>(total_steps_), mean_loss_,
              steps_per_second * static_cast<double>(images_per_step_), left / 60, left % 60,
              terminal_ ? "" : "\n");
  std::fflush(stdout);
}
