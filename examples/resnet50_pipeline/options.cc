#include "examples/resnet50_pipeline/options.h"

Options parse_options(int argc, char** argv) {
  Options options;
  Flags flags("train_resnet50_pipeline",
              "Trains ResNet-50 on folders of images, in stages on several ranks. "
              "Start it with launch; alone, it runs as one stage.");
  flags.pipeline(options.pipeline);
  flags.text("--data-dir", options.data_dir,
             "folder with train/CLASS/*.jpg and val/CLASS/*.jpg (default: generated images)");
  flags.number("--made-images", options.made_images, "number of generated images, without --data-dir", 1);
  flags.number("--image-size", options.image_size, "height and width of the network's input", 33);
  flags.number("--width", options.width, "channels of the first layer: 64 is ResNet-50", 1);
  flags.number("--epochs", options.epochs, "times through the training images", 1);
  flags.number("--max-steps", options.max_steps, "stop after this many steps; 0: no limit", 0);
  flags.number("--batch-size", options.batch_size, "images per replica and step", 1);
  flags.number("--lr", options.lr, "learning rate of SGD with momentum", 0);
  flags.number("--seed", options.seed, "seed of parameters, image order and augmentation", 0);
  flags.number("--num-workers", options.num_workers, "threads that load images, per worker", 0);
  flags.number("--checkpoint-every", options.checkpoint_every, "steps from one checkpoint to the next", 1);
  flags.fail_at(options.fail_at);
  flags.parse_or_exit(argc, argv);
  flags.multiple_or_exit("--batch-size", options.batch_size, "--microbatches", options.pipeline.microbatches);
  return options;
}
