#include "launcher/core/text/nearest.h"

#include <array>
#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

constexpr std::array<std::string_view, 4> kWords = {"nodes", "grace", "gpus-per-node", "max-restarts"};

TEST(Nearest, FindsTheIntendedWord) {
  EXPECT_EQ(nearest("ndoes", kWords), "nodes");
  EXPECT_EQ(nearest("gpu-per-node", kWords), "gpus-per-node");
  EXPECT_EQ(nearest("maxrestart", kWords), "max-restarts");
}

TEST(Nearest, DoesNotGuessWildly) {
  EXPECT_EQ(nearest("colour", kWords), std::nullopt);
  EXPECT_EQ(nearest("x", kWords), std::nullopt);
  EXPECT_EQ(nearest("nodes", {}), std::nullopt);
}

TEST(Nearest, IsAskedForInAMessage) {
  EXPECT_EQ(did_you_mean("bset", "status best show"), ": did you mean best?");
  EXPECT_EQ(did_you_mean("colour", "status best show"), "");
}

}  // namespace
}  // namespace muster::launcher
