#include "examples/gpt_pipeline/options.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "examples/char_lm/gpt_flags.h"

namespace {

void add_training(CLI::App& app, Options& options) {
  add_number(app, "--epochs", options.epochs, "times through the text", 1);
  add_number(app, "--max-steps", options.max_steps, "stop after this many steps; 0: no limit", 0);
  add_number(app, "--batch-size", options.batch_size, "pieces of text per replica and step", 1);
  add_number(app, "--lr", options.lr, "highest learning rate of AdamW", 0);
  add_number(app, "--clip-grad-norm", options.clip_grad_norm, "largest norm of the gradients; 0: no limit",
             0);
  add_number(app, "--seed", options.seed, "of the parameters, the order of the text, and dropout", 0);
  add_number(app, "--num-workers", options.num_workers, "threads that load text, per worker", 0);
  add_number(app, "--checkpoint-every", options.checkpoint_every, "steps from one checkpoint to the next", 1);
  add_fail_at(app, options.fail_at);
}

[[noreturn]] void refuse_multiple(const char* flag, std::int64_t value, const char* of,
                                  std::int64_t divisor) {
  std::fprintf(stderr, "train_gpt_pipeline: %s %ld is no multiple of %s %ld\n", flag,
               static_cast<long>(value), of, static_cast<long>(divisor));
  std::exit(2);
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Trains a small GPT on the characters of a text, in stages on several ranks. Start it with launch; "
      "alone it is one stage.",
      "train_gpt_pipeline");
  add_pipeline(app, options.pipeline);
  app.add_option("--text", options.text, "a file, or a folder of files")->capture_default_str();
  app.add_option("--token-dir", options.token_dir,
                 "folder on each node for the text as tokens (default: the one for temporary files)");
  add_model(app, options.model);
  add_training(app, options);
  parse_or_exit(app, argc, argv);
  if (options.model.width % options.model.heads != 0)
    refuse_multiple("--width", options.model.width, "--heads", options.model.heads);
  if (options.batch_size % options.pipeline.microbatches != 0)
    refuse_multiple("--batch-size", options.batch_size, "--microbatches", options.pipeline.microbatches);
  if (options.token_dir.empty()) options.token_dir = std::filesystem::temp_directory_path().string();
  return options;
}
