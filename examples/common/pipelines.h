// Arranges the ranks of a job as parallel pipelines. Each pipeline has one copy of the model, with a stage on
// each rank, and its share of the data.
#pragma once

#include <cstdio>
#include <memory>
#include <muster/muster.h>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "examples/common/flags.h"
#include "examples/common/parameter_digest.h"

// A mesh with the dimensions "dp" (replicas) and "pp" (stages). Returns nullopt, and prints one line on
// stderr, if the number of ranks is not a multiple of the number of stages.
inline std::optional<muster::DeviceMesh> make_pipelines(const char* program, const muster::Job& job,
                                                        const PipelineFlags& flags) {
  const int stages = flags.stages > 0 ? flags.stages : job.world_size();
  if (job.world_size() % stages != 0) {
    std::fprintf(stderr, "%s: %d ranks are not a multiple of --stages %d\n", program, job.world_size(),
                 stages);
    return std::nullopt;
  }
  return muster::init_device_mesh(job, {job.world_size() / stages, stages}, {"dp", "pp"});
}

struct PipelineModel {
  muster::PipelineLayers layers;
  muster::PipelineLoss loss;
  torch::Tensor microbatch;  // an example with the shape of the model's input
};

// Makes this rank's stage with its part of the schedule; rank 0 prints where the model is cut. Returns null,
// and prints one line on stderr, if the model or the schedule does not fit.
inline std::unique_ptr<muster::PipelineSchedule> make_pipeline(const char* program,
                                                               const PipelineModel& model,
                                                               const muster::DeviceMesh& pipelines,
                                                               const PipelineFlags& flags,
                                                               std::uint64_t seed) {
  const auto ranks = pipelines.get_group("pp");
  std::vector<at::Tensor> measured;
  if (flags.split == "profile") measured.push_back(model.microbatch);
  try {
    const auto profile = muster::profile_layers(model.layers, measured, ranks.job());
    const auto split = muster::split_layers(profile, {.ranks = ranks.size(),
                                                      .microbatches = flags.microbatches,
                                                      .schedule = flags.schedule,
                                                      .chunks = 1,
                                                      .by = flags.split});
    if (pipelines.get_rank() == 0) std::fputs(split.table().c_str(), stdout);
    return std::make_unique<muster::PipelineSchedule>(
        flags.schedule, std::vector{model.layers.stage(split.first_layers, ranks.rank(), ranks)},
        flags.microbatches, model.loss,
        muster::PipelineOptions{
            .recompute = flags.recompute, .replicas = pipelines.get_group("dp"), .seed = seed});
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return nullptr;
  }
}

// Returns whether this rank uses batches; the other ranks need not read any.
inline bool has_data(const muster::PipelineSchedule& schedule) {
  return schedule.stages().front().is_first() || schedule.stages().back().is_last();
}

// Each rank of the first replica prints the digest of its parameters.
inline void print_parameters(const muster::PipelineStage& stage, const muster::DeviceMesh& pipelines) {
  if (pipelines.get_local_rank("dp") != 0) return;
  std::printf("stage %d of %d: parameters xxh3 %s\n", stage.stage_index(), stage.num_stages(),
              parameter_digest(*stage.module()).c_str());
}
