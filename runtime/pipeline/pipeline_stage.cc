#include <fmt/format.h>
#include <muster/pipeline/pipeline_stage.h>
#include <stdexcept>

namespace muster {

PipelineStage::PipelineStage(std::shared_ptr<torch::nn::Module> module, detail::StageForward forward,
                             int stage_index, int num_stages, const Group& group)
    : module_(std::move(module)),
      forward_(std::move(forward)),
      stage_index_(stage_index),
      num_stages_(num_stages),
      group_(group) {
  if (module_ == nullptr) throw std::invalid_argument("PipelineStage: the module is null");
  if (stage_index < 0 || stage_index >= num_stages)
    throw std::invalid_argument(
        fmt::format("PipelineStage: no stage {} of {}: stages count from 0", stage_index, num_stages));
}

}  // namespace muster
