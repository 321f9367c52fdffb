#include "examples/transfer_learning/options.h"

#include "examples/common/flags.h"

Options parse_options(int argc, char** argv) {
  Options options;
  Flags flags(
      "train_transfer_learning",
      "Trains a small ResNet on five of Fashion-MNIST's ten classes, from the beginning or from the backbone "
      "of another training. Start it with launch, or alone.");
  flags.text("--data-dir", options.data_dir, "folder of the IDX files");
  flags.number("--first-class", options.first_class, "the first of the five classes", 0, 5);
  flags.text("--from", options.from,
             "checkpoint directory of a training on other classes, whose backbone is taken (default: none)");
  flags.number("--train-images", options.train_images, "train on so many images only; 0: on all", 0);
  flags.number("--epochs", options.epochs, "times through the training images", 1);
  flags.number("--frozen-epochs", options.frozen_epochs,
               "epochs in which the new head alone learns, if --from is given", 0);
  flags.number("--max-steps", options.max_steps, "stop after this many steps; 0: no limit", 0);
  flags.number("--batch-size", options.batch_size, "images per worker and step", 1);
  flags.number("--lr", options.lr, "learning rate of the head; a thawed backbone has a tenth", 0);
  flags.number("--width", options.width, "channels of the first layer", 1);
  flags.number("--seed", options.seed, "of the parameters and the order of the images", 0);
  flags.number("--checkpoint-every", options.checkpoint_every, "steps from one checkpoint to the next", 1);
  flags.parse_or_exit(argc, argv);
  return options;
}
