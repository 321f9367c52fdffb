// Shows where the time of a pipeline's last step went, on all ranks.
//
//   const auto profile = schedule.profile();  // on all ranks
//   if (job.rank() == 0) std::fputs(profile.text().c_str(), stdout);
//
// prints what each rank computed when: one picture as measured, and one as simulated from the measured times
// of the stages. The text also has the time that ranks lost to the bubble (waiting that the schedule causes),
// to stages slower than others, and to communication.
#pragma once

#include <string>
#include <vector>

namespace muster {

// On GPUs the figures are missing: the program sees when it launched an instruction, not when the GPU ran it.
struct PipelineProfile {
  struct Stage {  // medians over the microbatches
    double forward_ms = 0;
    double input_ms = 0;   // the part of backward up to the gradient of the input
    double weight_ms = 0;  // the rest of backward
  };
  std::vector<Stage> stages;
  double step_ms = 0;       // from the start of the first instruction to the end of the last
  double simulated_ms = 0;  // the simulated step: the stages' times, without communication
  // Means over the ranks; they add up to step_ms.
  double compute_ms = 0;
  double bubble_ms = 0;
  double imbalance_ms = 0;
  double link_ms = 0;    // all other waiting
  std::string measured;  // the pictures, without colours
  std::string simulated;

  bool on_gpus = false;

  std::string text() const;  // empty before the first step; on GPUs it says that figures are missing
};

}  // namespace muster
