// Where the trials of a sweep run.
#include "launcher/core/sweep/sweep_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

namespace muster::launcher::sweep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Wanted {
  std::int32_t nodes = 1;
  std::int32_t gpus = 1;
  std::optional<std::int32_t> parallel{};
};

Expected<std::vector<Berth>> berths_on(const char* hosts, const Wanted& wanted) {
  SweepOptions options;
  options.nodes_per_trial = wanted.nodes;
  options.gpus_per_trial = wanted.gpus;
  options.parallel = wanted.parallel;
  return berths_of(options, {.hosts = *parse_hosts(hosts, "--hosts")});
}

// Each place, and the first GPU there.
std::vector<std::string> packed(const char* hosts, const Wanted& wanted) {
  std::vector<std::string> all;
  std::set<std::pair<std::string, std::int32_t>> used;
  for (const Berth& berth : berths_on(hosts, wanted).value()) {
    EXPECT_EQ(std::ssize(berth.hosts), wanted.nodes);
    EXPECT_EQ(std::ssize(berth.gpus), wanted.gpus);
    all.push_back(fmt::format("{} from {}", berth.place, berth.gpus.at(0)));
    for (const Host& host : berth.hosts) {
      EXPECT_EQ(host.slots, wanted.gpus);
      for (const std::int32_t gpu : berth.gpus)
        EXPECT_TRUE(used.emplace(host.name, gpu).second) << "GPU " << gpu << " of " << host.name;
    }
  }
  return all;
}

TEST(SweepBerths, ShareHostsAndNoGpu) {
  EXPECT_THAT(packed("a:4,b:4", {.gpus = 2}), ElementsAre("a from 0", "b from 0", "a from 2", "b from 2"));
  EXPECT_THAT(packed("a:5,b:2", {.gpus = 2}), ElementsAre("a from 0", "b from 0", "a from 2"));
  EXPECT_THAT(packed("a:4,b:4", {.gpus = 1, .parallel = 3}), ElementsAre("a from 0", "b from 0", "a from 1"));
}

// The nodes of a trial have one CUDA_VISIBLE_DEVICES.
TEST(SweepBerths, OfSeveralHostsHaveTheSameGpusOnEach) {
  EXPECT_THAT(packed("a:4,b:4,c:4", {.nodes = 2, .gpus = 2}), ElementsAre("a, b from 0", "a, c from 2"));
  EXPECT_THAT(packed("a:8,b:4,c:2,d:2", {.nodes = 2, .gpus = 2}),
              ElementsAre("a, b from 0", "c, d from 0", "a, b from 2"));
  EXPECT_THAT(packed("a:2,b:6,c:4,d:1,e:4", {.nodes = 2, .gpus = 2}),
              ElementsAre("a, b from 0", "c, e from 0", "b, c from 2"));
}

TEST(SweepBerths, OnHostsWithoutSlotsLeaveTheGpusToTheHost) {
  const auto berths = berths_on("a,b,c", {.nodes = 1, .gpus = 2});
  ASSERT_EQ(berths->size(), 3U);
  for (const Berth& berth : *berths) EXPECT_THAT(berth.gpus, IsEmpty());
}

TEST(SweepBerths, ThatDoNotFitAreRefused) {
  EXPECT_EQ(berths_on("a:4,b:4,c:4", {.nodes = 2, .gpus = 2, .parallel = 3}).error().message(),
            "--parallel: 3 trials do not fit on these hosts: at most 2 do");
  EXPECT_FALSE(berths_on("a:1,b:1", {.gpus = 2}).has_value());
}

}  // namespace
}  // namespace muster::launcher::sweep
