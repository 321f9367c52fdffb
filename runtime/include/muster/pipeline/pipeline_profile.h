// Shows where the time of a pipeline's last step went, on all ranks.
//
//   const auto profile = schedule.profile();  // on all ranks
//   if (job.rank() == 0) std::fputs(profile.text().c_str(), stdout);
//
// The text shows what each rank computed at which time. One picture shows the measured times, and a second
// one a simulation from the measured times of the stages. The text also says how much time the ranks lost for
// three reasons: the bubble (waiting that the schedule causes), stages that are slower than others, and
// communication.
#pragma once

#include <string>
#include <vector>

namespace muster {

// The times of a pipeline's step. On GPUs they are missing: the program knows when it launched an
// instruction, but not when the GPU ran it.
struct PipelineProfile {
  struct Stage {  // medians over the microbatches
    double forward_ms = 0;
    double input_ms = 0;   // the part of backward up to the gradient of the input
    double weight_ms = 0;  // the rest of backward
  };
  std::vector<Stage> stages;
  double step_ms = 0;       // from the start of the first instruction to the end of the last
  double simulated_ms = 0;  // the simulated step: the stages' times, without communication
  // The four times below are means over the ranks. Together they are step_ms.
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
