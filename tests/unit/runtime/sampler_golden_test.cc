#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <muster/data/distributed_sampler.h>
#include <muster/data/subset.h>
#include <sstream>
#include <stdexcept>

namespace muster {
namespace {

using Entries = std::vector<std::int64_t>;

// One line of sampler_golden.txt, which sampler_golden.py wrote with Python's own classes.
struct Case {
  std::string kind;
  std::vector<std::uint64_t> arguments;  // those of this kind of sampler, then seed and epoch
  std::size_t count = 0;
  std::uint64_t checksum = 0;
  Entries shown;

  std::int64_t number(std::size_t place) const { return static_cast<std::int64_t>(arguments.at(place)); }
  int rank_or_world(std::size_t place) const { return static_cast<int>(arguments.at(place)); }
  bool flag(std::size_t place) const { return arguments.at(place) != 0; }
  std::uint64_t seed() const { return arguments.at(arguments.size() - 2); }
  std::int64_t epoch() const { return number(arguments.size() - 1); }
};

Case parse(const std::string& line) {
  Case parsed;
  std::istringstream fields(line);
  fields >> parsed.kind;
  for (std::string field; fields >> field && field != "=";) parsed.arguments.push_back(std::stoull(field));
  fields >> parsed.count >> parsed.checksum;
  if (!fields) throw std::runtime_error("not a case: " + line);
  for (std::int64_t entry = 0; fields >> entry;) parsed.shown.push_back(entry);
  return parsed;
}

std::uint64_t checksum(const Entries& entries) {
  std::uint64_t value = 14695981039346656037U;
  for (const std::int64_t entry : entries)
    value = (value ^ static_cast<std::uint64_t>(entry)) * 1099511628211U;
  return value;
}

std::vector<double> weights_of(std::int64_t size, bool zeros) {
  std::vector<double> weights;
  for (std::int64_t i = 0; i < size; ++i) {
    weights.push_back(zeros && i % 3 == 1 ? 0 : static_cast<double>(i * 7919 % 1000 + 1) / 1000);
  }
  return weights;
}

Entries random(const Case& a) {
  RandomSamplerOptions options{.replacement = a.flag(2), .seed = a.seed()};
  if (a.flag(1)) options.num_samples = a.number(1);
  const RandomSampler sampler(a.number(0), options);
  EXPECT_EQ(sampler.size(), a.flag(1) ? a.number(1) : a.number(0));
  return sampler.indices(a.epoch());
}

Entries subset(const Case& a) {
  Entries indices;
  for (std::int64_t i = 0; i < a.number(0); ++i) indices.push_back(i * 3 + 5);
  return SubsetRandomSampler(indices, a.seed()).indices(a.epoch());
}

Entries weighted(const Case& a) {
  const WeightedRandomSampler sampler(weights_of(a.number(0), a.flag(3)), a.number(1),
                                      {.replacement = a.flag(2), .seed = a.seed()});
  return sampler.indices(a.epoch());
}

Entries distributed(const Case& a) {
  const DistributedSampler sampler(a.number(0), a.rank_or_world(1), a.rank_or_world(2),
                                   {.shuffle = a.flag(3), .seed = a.seed(), .drop_last = a.flag(4)});
  EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(a.count));
  return sampler.indices(a.epoch());
}

Entries distributed_weighted(const Case& a) {
  const auto drawn = std::make_shared<WeightedRandomSampler>(weights_of(a.number(0), true), a.number(1),
                                                             WeightedRandomSamplerOptions{.seed = a.seed()});
  return DistributedSampler(drawn, a.rank_or_world(2), a.rank_or_world(3)).indices(a.epoch());
}

Entries batches(const Case& a) {
  const DistributedSampler sampler(a.number(0), a.rank_or_world(1), a.rank_or_world(2), {.seed = a.seed()});
  const BatchPlan plan = sampler.plan(a.epoch(), a.number(3), a.flag(4));
  Entries flat;
  for (std::int64_t number = 0; number < plan.size(); ++number) {
    const Entries batch = plan[number].indices;
    flat.push_back(std::ssize(batch));
    flat.insert(flat.end(), batch.begin(), batch.end());
  }
  return flat;
}

class Sized : public Dataset<std::int64_t> {
 public:
  explicit Sized(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::int64_t get(std::int64_t index) const override { return index; }

 private:
  std::int64_t size_;
};

Entries split(const Case& a) {
  const Sized dataset(a.number(0));
  const Entries lengths(a.arguments.begin() + 2, a.arguments.end() - 2);
  std::vector<double> fractions;
  for (const std::int64_t length : lengths) fractions.push_back(static_cast<double>(length) / 1000);
  const std::uint64_t seed = a.seed() + a.arguments.back();
  Entries flat;
  for (const auto& part :
       a.flag(1) ? random_split(dataset, fractions, seed) : random_split(dataset, lengths, seed)) {
    flat.push_back(part.size());
    flat.insert(flat.end(), part.indices().begin(), part.indices().end());
  }
  return flat;
}

TEST(Samplers, GivePyTorchsOrderIndexForIndex) {
  const std::map<std::string, std::function<Entries(const Case&)>> kinds = {
      {"random", random},     {"subset", subset},
      {"weighted", weighted}, {"distributed", distributed},
      {"batches", batches},   {"distributed_weighted", distributed_weighted},
      {"split", split}};
  std::ifstream golden(MUSTER_SAMPLER_GOLDEN);
  std::map<std::string, int> seen;
  for (std::string line; std::getline(golden, line);) {
    const Case expected = parse(line);
    const Entries given = kinds.at(expected.kind)(expected);
    ASSERT_EQ(given.size(), expected.count) << line;
    ASSERT_EQ(checksum(given), expected.checksum) << line;
    if (!expected.shown.empty()) ASSERT_EQ(given, expected.shown) << line;
    ++seen[expected.kind];
  }
  EXPECT_EQ(seen.size(), kinds.size());
  EXPECT_GT(seen["distributed"], 600);
}

}  // namespace
}  // namespace muster
