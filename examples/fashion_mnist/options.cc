#include "examples/fashion_mnist/options.h"

#include "examples/common/flags.h"

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a small network on Fashion-MNIST. Start it with launch, or alone.",
               "train_fashion_mnist");
  add_number(app, "--epochs", options.epochs, "times through the training images", 1);
  add_number(app, "--max-steps", options.max_steps, "stop after this many steps; 0: no limit", 0);
  add_number(app, "--batch-size", options.batch_size, "images per worker and step", 1);
  add_number(app, "--lr", options.lr, "learning rate of Adam", 0);
  add_number(app, "--clip-grad-norm", options.clip_grad_norm, "largest norm of the gradients; 0: no limit",
             0);
  add_number(app, "--seed", options.seed, "of the parameters, the order of the images, and dropout", 0);
  app.add_flag("--deterministic", options.deterministic,
               "refuse operators whose result may differ from run to run");
  add_number(app, "--num-workers", options.num_workers, "threads that load images, per worker", 0);
  add_number(app, "--checkpoint-every", options.checkpoint_every, "steps from one checkpoint to the next", 1);
  add_number(app, "--memory-every", options.memory_every,
             "steps from one copy in memory to the next (launch --memory-tier); 0: none", 0);
  app.add_option("--data-dir", options.data_dir, "folder of the IDX files")->capture_default_str();
  add_fail_at(app, options.fail_at);
  parse_or_exit(app, argc, argv);
  return options;
}
