#include "bench/sweep_quality/functions.h"

#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

namespace muster::bench {
namespace {

using launcher::sweep::Parameter;
using launcher::sweep::Space;
using Vector = std::vector<double>;

double branin(const Vector& x) {
  constexpr double kPi = std::numbers::pi;
  const double a = x[1] - 5.1 / (4 * kPi * kPi) * x[0] * x[0] + 5 / kPi * x[0] - 6;
  return a * a + 10 * (1 - 1 / (8 * kPi)) * std::cos(x[0]) + 10;
}

double hartmann6(const Vector& x) {
  constexpr std::array<double, 4> kHeights = {1, 1.2, 3, 3.2};
  constexpr double kScales[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                                    {0.05, 10, 17, 0.1, 8, 14},
                                    {3, 3.5, 1.7, 10, 17, 8},
                                    {17, 8, 0.05, 10, 0.1, 14}};
  constexpr double kCenters[4][6] = {{0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886},
                                     {0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991},
                                     {0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650},
                                     {0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381}};
  double sum = 0;
  for (int i = 0; i < 4; ++i) {
    double distance = 0;
    for (int j = 0; j < 6; ++j) distance += kScales[i][j] * std::pow(x[j] - kCenters[i][j], 2);
    sum += kHeights[i] * std::exp(-distance);
  }
  return -sum;
}

double rosenbrock(const Vector& x) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < x.size(); ++i)
    sum += 100 * std::pow(x[i + 1] - x[i] * x[i], 2) + std::pow(1 - x[i], 2);
  return sum;
}

double ackley(const Vector& x) {
  const auto count = static_cast<double>(x.size());
  double squares = 0;
  double cosines = 0;
  for (const double each : x) {
    squares += each * each / count;
    cosines += std::cos(2 * std::numbers::pi * each) / count;
  }
  return -20 * std::exp(-0.2 * std::sqrt(squares)) - std::exp(cosines) + 20 + std::numbers::e;
}

// Falkner, Klein, Hutter, arXiv 1807.01774: each number is the probability of a 1, which a trial sees 729
// times.
constexpr std::size_t kOnesChoices = 8;
constexpr std::size_t kOnesNumbers = 8;
constexpr int kOnesDraws = 729;

double counting_ones(const Vector& x) {
  return -std::accumulate(x.begin(), x.end(), 0.0);
}
double counted_ones(const Vector& x, std::mt19937_64& noise) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    sum +=
        i < kOnesChoices ? x[i] : std::binomial_distribution<>(kOnesDraws, x[i])(noise) / double{kOnesDraws};
  return -sum;
}

Function plain(std::string name, double minimum, std::vector<std::pair<double, double>> ranges,
               std::function<double(const Vector&)> value) {
  Function function{.name = std::move(name), .minimum = minimum, .space = {}, .measure = {}, .value = value};
  function.measure = [value](const Vector& x, std::mt19937_64&) { return value(x); };
  for (const auto& [low, high] : ranges)
    function.space.parameters.push_back({.name = fmt::format("x{}", function.space.parameters.size()),
                                         .kind = Parameter::Kind::kUniform,
                                         .low = low,
                                         .high = high});
  return function;
}

}  // namespace

std::vector<Function> functions() {
  std::vector<Function> all;
  all.push_back(plain("branin", 0.397887, {{-5, 10}, {0, 15}}, branin));
  all.push_back(plain("hartmann6", -3.32237, std::vector(6, std::pair(0.0, 1.0)), hartmann6));
  all.push_back(plain("rosenbrock10", 0, std::vector(10, std::pair(-5.0, 10.0)), rosenbrock));
  all.push_back(plain("ackley5", 0, std::vector(5, std::pair(-32.768, 32.768)), ackley));
  all.push_back(plain("counting_ones", -double{kOnesChoices + kOnesNumbers},
                      std::vector(kOnesChoices + kOnesNumbers, std::pair(0.0, 1.0)), counting_ones));
  Function& ones = all.back();
  ones.measure = counted_ones;
  for (std::size_t i = 0; i < kOnesChoices; ++i) {
    ones.space.parameters[i].kind = Parameter::Kind::kChoice;
    ones.space.parameters[i].choices = {std::int64_t{0}, std::int64_t{1}};
  }
  return all;
}

}  // namespace muster::bench
