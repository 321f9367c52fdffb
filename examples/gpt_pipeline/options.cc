#include "examples/gpt_pipeline/options.h"

#include <filesystem>

#include "examples/char_lm/gpt_flags.h"

namespace {

void add_training(Flags& flags, Options& options) {
  flags.number("--epochs", options.epochs, "times through the text", 1);
  flags.number("--max-steps", options.max_steps, "stop after this many steps; 0: no limit", 0);
  flags.number("--batch-size", options.batch_size, "text samples per replica and step", 1);
  flags.number("--lr", options.lr, "highest learning rate of AdamW", 0);
  flags.number("--clip-grad-norm", options.clip_grad_norm, "largest norm of the gradients; 0: no limit", 0);
  flags.number("--seed", options.seed, "seed of parameters, sample order and dropout", 0);
  flags.number("--num-workers", options.num_workers, "threads that load text, per worker", 0);
  flags.number("--checkpoint-every", options.checkpoint_every, "steps from one checkpoint to the next", 1);
  flags.fail_at(options.fail_at);
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  Flags flags("train_gpt_pipeline",
              "Trains a small GPT on the characters of a text, in stages on several ranks. "
              "Start it with launch; alone, it runs as one stage.");
  flags.pipeline(options.pipeline);
  flags.text("--text", options.text, "a file, or a folder of files");
  flags.text("--token-dir", options.token_dir,
             "folder on each node for the file of tokens (default: the folder for temporary files)");
  add_model(flags, options.model);
  add_training(flags, options);
  flags.parse_or_exit(argc, argv);
  flags.multiple_or_exit("--width", options.model.width, "--heads", options.model.heads);
  flags.multiple_or_exit("--batch-size", options.batch_size, "--microbatches", options.pipeline.microbatches);
  if (options.token_dir.empty()) options.token_dir = std::filesystem::temp_directory_path().string();
  return options;
}
