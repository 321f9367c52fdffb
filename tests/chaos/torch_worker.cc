// The training of tests/train with LibTorch, DistributedDataParallel and the Checkpointer, for chaos. Unlike
// the plain worker it shows that the final parameters are bit for bit those of an undisturbed training.
// Arguments: diary.h.
#include "common/wire/digest.h"
#include "tests/chaos/diary.h"
#include "tests/train/training.h"

int main(int argc, char** argv) {
  using namespace muster;
  auto job = init();
  const chaos::Diary diary({argv + 1, argv + argc});
  diary.moment("start", ~std::uint64_t{0});
  torch::manual_seed(7 + static_cast<std::uint64_t>(job.rank()));
  const NoiseDataset dataset(64);
  auto model = DistributedDataParallel(SmallNet(), job, {.bucket_cap_mb = 0.004});
  torch::optim::Adam optimizer(model.parameters(), torch::optim::AdamOptions(1e-2));
  DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .seed = 3}, job);
  Checkpointer checkpoints(job, {.every = static_cast<std::int64_t>(diary.save_every())});
  auto state = TrainState(model, optimizer, loader);
  diary.note("resume", static_cast<std::uint64_t>(checkpoints.restore(state)));
  for (auto& batch : loader.epochs(1000)) {
    if (checkpoints.steps() == static_cast<std::int64_t>(diary.steps())) break;
    const auto step = static_cast<std::uint64_t>(checkpoints.steps()) + 1;
    diary.note("step", step);
    diary.moment("step", step);
    train_one(model, optimizer, batch);
    checkpoints.step(state);
    // The save is in progress now.
    if (step % diary.save_every() == 0) diary.moment("save", step);
  }
  if (!checkpoints.save(state)) return 1;
  diary.note("finish", diary.steps(), " " + xxh3_digest(bytes_of(*model.module())));
}
