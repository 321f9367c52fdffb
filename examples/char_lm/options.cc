#include "examples/char_lm/options.h"

#include <filesystem>

#include "examples/char_lm/gpt_flags.h"
#include "examples/common/flags.h"

namespace {

void add_training(Flags& flags, Options& options) {
  flags.number("--epochs", options.epochs, "times through the text", 1);
  flags.number("--max-steps", options.max_steps, "stop after this many steps; 0: no limit", 0);
  flags.number("--batch-size", options.batch_size, "text samples per worker and backward pass", 1);
  flags.number("--accumulate", options.accumulate, "backward passes per step", 1);
  flags.number("--lr", options.lr, "highest learning rate of AdamW", 0);
  flags.number("--clip-grad-norm", options.clip_grad_norm, "largest norm of the gradients; 0: no limit", 0);
  flags.choice("--comm-hook", options.comm_hook, "send gradients unchanged (none), or as fp16 or bf16",
               {"none", "fp16", "bf16"});
  flags.number("--seed", options.seed, "seed of parameters, sample order and dropout", 0);
  flags.number("--num-workers", options.num_workers, "threads that load text, per worker", 0);
  flags.number("--checkpoint-every", options.checkpoint_every, "steps from one checkpoint to the next", 1);
  flags.fail_at(options.fail_at);
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  Flags flags("train_char_lm",
              "Trains a small GPT on the characters of a text. Start it with launch, or alone.");
  flags.text("--text", options.text, "a file, or a folder of files");
  flags.text("--token-dir", options.token_dir,
             "folder on each node for the file of tokens (default: the folder for temporary files)");
  add_model(flags, options.model);
  add_training(flags, options);
  flags.number("--generate", options.generate, "characters to generate with the trained model; 0: none", 0);
  flags.parse_or_exit(argc, argv);
  flags.multiple_or_exit("--width", options.model.width, "--heads", options.model.heads);
  if (options.token_dir.empty()) options.token_dir = std::filesystem::temp_directory_path().string();
  return options;
}
