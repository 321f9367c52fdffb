#include "examples/transfer_learning/options.h"

#include "examples/common/flags.h"

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Trains a small ResNet on five of Fashion-MNIST's ten classes, from the beginning or from the backbone "
      "of another training. Start it with launch, or alone.",
      "train_transfer_learning");
  app.add_option("--data-dir", options.data_dir, "folder of the IDX files")->capture_default_str();
  app.add_option("--first-class", options.first_class, "the first of the five classes")
      ->capture_default_str()
      ->check(CLI::Range(0, 5));
  app.add_option(
      "--from", options.from,
      "checkpoint directory of a training on other classes, whose backbone is taken (default: none)");
  add_number(app, "--train-images", options.train_images, "train on so many images only; 0: on all", 0);
  add_number(app, "--epochs", options.epochs, "times through the training images", 1);
  add_number(app, "--frozen-epochs", options.frozen_epochs,
             "epochs in which the new head alone learns, if --from is given", 0);
  add_number(app, "--max-steps", options.max_steps, "stop after this many steps; 0: no limit", 0);
  add_number(app, "--batch-size", options.batch_size, "images per worker and step", 1);
  add_number(app, "--lr", options.lr, "learning rate of the head; a thawed backbone has a tenth", 0);
  add_number(app, "--width", options.width, "channels of the first layer", 1);
  add_number(app, "--seed", options.seed, "of the parameters and the order of the images", 0);
  add_number(app, "--checkpoint-every", options.checkpoint_every, "steps from one checkpoint to the next", 1);
  parse_or_exit(app, argc, argv);
  return options;
}
