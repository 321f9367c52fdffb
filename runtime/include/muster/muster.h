// All of Muster's runtime in one header.
//
// Programs that compile many files include the single headers.
#pragma once

#include <muster/batch_memory.h>
#include <muster/batch_plan.h>
#include <muster/batch_sampler.h>
#include <muster/cached_dataset.h>
#include <muster/check_finite.h>
#include <muster/checkpointer.h>
#include <muster/collate.h>
#include <muster/csv_dataset.h>
#include <muster/data_loader.h>
#include <muster/data_loader_options.h>
#include <muster/data_parallel.h>
#include <muster/dataset.h>
#include <muster/distributed_data_parallel.h>
#include <muster/distributed_data_parallel_options.h>
#include <muster/distributed_sampler.h>
#include <muster/elastic_sampler.h>
#include <muster/grad_clip.h>
#include <muster/idx_dataset.h>
#include <muster/image.h>
#include <muster/image_folder.h>
#include <muster/iterable_dataset.h>
#include <muster/job.h>
#include <muster/load_model.h>
#include <muster/metrics.h>
#include <muster/progress.h>
#include <muster/sample_random.h>
#include <muster/sampler.h>
#include <muster/saved_optimizer.h>
#include <muster/section.h>
#include <muster/seed.h>
#include <muster/spawn.h>
#include <muster/state_part.h>
#include <muster/step_profile.h>
#include <muster/subset.h>
#include <muster/summary.h>
#include <muster/tensor_dataset.h>
#include <muster/token_dataset.h>
#include <muster/train_state.h>
#include <muster/transformed.h>
#include <muster/transforms.h>
#include <muster/window_dataset.h>
