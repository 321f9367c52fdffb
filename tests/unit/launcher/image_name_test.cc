#include "launcher/core/fleet/image_name.h"

#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

void expect_parts(const char* image, const char* registry, const char* repository, const char* tag) {
  const ImageName name = parse_image(image);
  EXPECT_EQ(name.registry, registry) << image;
  EXPECT_EQ(name.repository, repository) << image;
  EXPECT_EQ(name.tag, tag) << image;
}

TEST(ImageName, IsSplitAsDockerDoesIt) {
  expect_parts("debian", "docker.io", "debian", "latest");
  expect_parts("debian:12", "docker.io", "debian", "12");
  expect_parts("team/train:1.2", "docker.io", "team/train", "1.2");
  expect_parts("localhost/train", "localhost", "localhost/train", "latest");
  expect_parts("localhost:5000/train", "localhost:5000", "localhost:5000/train", "latest");
  expect_parts("nvcr.io/nvidia/pytorch:24.01-py3", "nvcr.io", "nvcr.io/nvidia/pytorch", "24.01-py3");
}

TEST(ImageName, HasNoTagWithADigest) {
  expect_parts("debian@sha256:0a1b", "docker.io", "debian", "sha256:0a1b");
  expect_parts("debian:12@sha256:0a1b", "docker.io", "debian", "sha256:0a1b");
  expect_parts("localhost:5000/train@sha256:0a1b", "localhost:5000", "localhost:5000/train", "sha256:0a1b");
}

}  // namespace
}  // namespace muster::launcher
