// Functions with known minima, to measure searches with.
//
// Each is a loss: smaller is better. sweep_quality_compare.py has the same functions for Optuna: change both.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "launcher/core/sweep/space/space.h"

namespace muster::bench {

struct Function {
  std::string name;
  double minimum = 0;
  launcher::sweep::Space space;  // parameters x0, x1, ...
  // Gives the value that a trial reports, which may contain noise.
  std::function<double(const std::vector<double>& x, std::mt19937_64& noise)> measure;
  // The same without noise: the best trial is judged by it.
  std::function<double(const std::vector<double>& x)> value;
};

// Branin, Hartmann-6, Rosenbrock-10, Ackley-5, Stochastic Counting Ones with 8 choices and 8 numbers.
std::vector<Function> functions();

}  // namespace muster::bench
