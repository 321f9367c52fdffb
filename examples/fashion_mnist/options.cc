#include "examples/fashion_mnist/options.h"

#include "examples/common/flags.h"

Options parse_options(int argc, char** argv) {
  Options options;
  Flags flags("train_fashion_mnist",
              "Trains a small network on Fashion-MNIST. Start it with launch, or alone.");
  flags.number("--epochs", options.epochs, "times through the training images", 1);
  flags.number("--max-steps", options.max_steps, "stop after this many steps; 0: no limit", 0);
  flags.number("--batch-size", options.batch_size, "images per worker and step", 1);
  flags.number("--lr", options.lr, "learning rate of Adam", 0);
  flags.number("--clip-grad-norm", options.clip_grad_norm, "largest norm of the gradients; 0: no limit", 0);
  flags.number("--seed", options.seed, "seed of parameters, image order and dropout", 0);
  flags.yes("--deterministic", options.deterministic,
            "refuse operators whose results may differ between runs");
  flags.number("--num-workers", options.num_workers, "threads that load images, per worker", 0);
  flags.number("--checkpoint-every", options.checkpoint_every, "steps from one checkpoint to the next", 1);
  flags.number("--memory-every", options.memory_every,
               "steps between copies in memory (needs launch --memory-tier); 0: none", 0);
  flags.text("--data-dir", options.data_dir, "folder of the IDX files");
  flags.fail_at(options.fail_at);
  flags.parse_or_exit(argc, argv);
  return options;
}
