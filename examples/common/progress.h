// One line that says how far training is: step, loss, images per second, time left.
//
// Redrawn in place on a terminal; otherwise a plain line every few seconds, for logs. For one thread.
#pragma once

#include <chrono>
#include <cstdint>

// Says so, where a training that goes on at step `resumed` is at its end already.
bool is_trained(bool shown, std::int64_t resumed, std::int64_t total_steps);

class Progress {
 public:
  // `shown`: on one rank only. `images_per_step`: of all ranks.
  Progress(bool shown, std::int64_t first_step, std::int64_t total_steps, std::int64_t images_per_step);
  ~Progress();

  void after_step(std::int64_t step, double loss);

 private:
  using Clock = std::chrono::steady_clock;
  void print(std::int64_t step, Clock::time_point now);

  const bool shown_;
  const bool terminal_;
  const std::int64_t first_step_;
  const std::int64_t total_steps_;
  const std::int64_t images_per_step_;
  const Clock::time_point started_ = Clock::now();
  Clock::time_point printed_ = started_;
  double mean_loss_ = 0;  // over about the last 50 steps
};
