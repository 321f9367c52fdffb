// Where the time of a pipeline's last step went, on all ranks.
//
//   const auto profile = schedule.profile();  // on all ranks
//   if (job.rank() == 0) std::fputs(profile.text().c_str(), stdout);
//
// prints a row a rank with what it computed when, the same as the schedule is on paper with the times that
// were measured, and what ranks lost to the bubble, to stages that take longer than others, and to the link.
#pragma once

#include <string>
#include <vector>

namespace muster {

// On GPUs there are no figures: the program is told when an instruction was launched, not when it was
// computed.
struct PipelineProfile {
  struct Stage {  // medians over the microbatches
    double forward_ms = 0;
    double input_ms = 0;   // the backward up to the gradient of the input
    double weight_ms = 0;  // the rest of it
  };
  std::vector<Stage> stages;
  double step_ms = 0;       // from the first instruction's beginning to the last one's end
  double simulated_ms = 0;  // the same on paper, with the stages' times and a link that takes none
  // The mean over the ranks; they sum up to step_ms.
  double compute_ms = 0;
  double bubble_ms = 0;
  double imbalance_ms = 0;
  double link_ms = 0;    // all else that ranks waited for
  std::string measured;  // the pictures, without colours
  std::string simulated;

  bool on_gpus = false;

  std::string text() const;  // empty before the first step; of GPUs it says that there are no figures
};

}  // namespace muster
