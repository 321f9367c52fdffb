#include "examples/transfer_learning/options.h"

#include "examples/common/flags.h"

Options parse_options(int argc, char** argv) {
  Options options;
  Flags flags(
      "train_transfer_learning",
      "Trains a small ResNet on five of Fashion-MNIST's ten classes, from scratch or from another training's backbone. "
      "Start it with launch, or alone.");
  flags.text("--data-dir", options.data_dir, "folder of the IDX files");
  flags.number("--first-class", options.first_class, "the first of the five classes", 0, 5);
  flags.text("--from", options.from,
             "checkpoint directory of a training on other classes, to take its backbone (default: none)");
  flags.number("--train-images", options.train_images, "number of images to train on; 0: all", 0);
  flags.number("--epochs", options.epochs, "times through the training images", 1);
  flags.number("--frozen-epochs", options.frozen_epochs,
               "with --from: epochs in which only the new head learns", 0);
  flags.number("--max-steps", options.max_steps, "stop after this many steps; 0: no limit", 0);
  flags.number("--batch-size", options.batch_size, "images per worker and step", 1);
  flags.number("--lr", options.lr, "learning rate of the head; a thawed backbone uses a tenth of it", 0);
  flags.number("--width", options.width, "channels of the first layer", 1);
  flags.number("--seed", options.seed, "seed of parameters and image order", 0);
  flags.number("--checkpoint-every", options.checkpoint_every, "steps from one checkpoint to the next", 1);
  flags.parse_or_exit(argc, argv);
  return options;
}
