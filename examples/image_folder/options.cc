#include "examples/image_folder/options.h"

#include "examples/common/flags.h"

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a small network on folders of JPEG and PNG images. Start it with launch, or alone.",
               "train_image_folder");
  app.add_option("--data-dir", options.data_dir, "folder with train/CLASS/*.jpg and val/CLASS/*.jpg")
      ->required();
  add_number(app, "--image-size", options.image_size, "height and width of the network's input", 8);
  add_number(app, "--epochs", options.epochs, "times through the training images", 1);
  add_number(app, "--max-steps", options.max_steps, "stop after this many steps; 0: no limit", 0);
  add_number(app, "--batch-size", options.batch_size, "images per worker and step", 1);
  add_number(app, "--lr", options.lr, "learning rate of AdamW", 0);
  add_number(app, "--seed", options.seed,
             "of the parameters, the order of the images, and their augmentation", 0);
  add_number(app, "--num-workers", options.num_workers, "threads that load images, per worker", 0);
  app.add_flag("--skip-bad", options.skip_bad, "leave out images that cannot be read, and say how many");
  add_number(app, "--checkpoint-every", options.checkpoint_every, "steps from one checkpoint to the next", 1);
  add_fail_at(app, options.fail_at);
  parse_or_exit(app, argc, argv);
  return options;
}
