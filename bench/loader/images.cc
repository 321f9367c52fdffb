#include <muster/vision/image_folder.h>
#include <muster/vision/transforms.h>

#include "bench/loader/run.h"

namespace muster::bench {

namespace {

constexpr std::int64_t kImageBatch = 64, kPhotoSize = 224;

using transforms::Compose;

// Images with their transforms.
struct Prepared {
  Prepared(const std::string& folder, Compose steps)
      : images(folder), transformed(images, std::move(steps)) {}
  ImageFolder images;
  Transformed<Example, Compose> transformed;
};

Open loader(const std::string& folder, Compose steps) {
  const auto prepared = std::make_shared<Prepared>(folder, std::move(steps));
  return muster_loader<Example>(std::shared_ptr<const Dataset<>>(prepared, &prepared->transformed),
                                kImageBatch, [](const Batch& batch) { return batch.target.size(0); });
}

Compose::Step as_float() {
  return transforms::ToDtype(at::kFloat, {.scale = true});
}
Compose::Step normalized() {
  return transforms::Normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
}

}  // namespace

Forms images() {
  return {{"muster",
           [](const std::string& folder) { return loader(folder, Compose({as_float(), normalized()})); }}};
}

Forms photos() {
  return {{"muster", [](const std::string& folder) {
             return loader(folder, Compose({transforms::RandomResizedCrop(kPhotoSize),
                                            transforms::RandomHorizontalFlip(), as_float(), normalized()}));
           }}};
}

}  // namespace muster::bench
