#include "examples/image_folder/options.h"

#include "examples/common/flags.h"

Options parse_options(int argc, char** argv) {
  Options options;
  Flags flags("train_image_folder",
              "Trains a small network on folders of images. Start it with launch, or alone.");
  flags.required_text("--data-dir", options.data_dir, "folder with train/CLASS/*.jpg and val/CLASS/*.jpg");
  flags.number("--image-size", options.image_size, "height and width of the network's input", 8);
  flags.number("--epochs", options.epochs, "times through the training images", 1);
  flags.number("--max-steps", options.max_steps, "stop after this many steps; 0: no limit", 0);
  flags.number("--batch-size", options.batch_size, "images per worker and step", 1);
  flags.number("--lr", options.lr, "learning rate of AdamW", 0);
  flags.number("--seed", options.seed, "seed of parameters, image order and augmentation", 0);
  flags.number("--num-workers", options.num_workers, "threads that load images, per worker", 0);
  flags.yes("--skip-bad", options.skip_bad, "skip images that cannot be read, and print how many");
  flags.number("--checkpoint-every", options.checkpoint_every, "steps from one checkpoint to the next", 1);
  flags.fail_at(options.fail_at);
  flags.parse_or_exit(argc, argv);
  return options;
}
