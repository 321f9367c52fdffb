// ASHA against synchronous successive halving with stragglers and lost runs, in simulated time.
//
// The simulation follows appendix A.1 of the ASHA paper (Li et al., arXiv 1810.05934): eta 4, r 1, R 256, 25
// workers. A job that trains until step s takes s * (1 + |z|) units with z ~ N(0, sigma), and is lost in each
// unit with probability p; a lost job is run again, as Muster does. The program prints how many trials were
// trained until R by t = 2000. ASHA's decisions are the launcher's own. Successive halving has 256 trials a
// bracket, and a worker for which no bracket has a job starts another one.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/core.h>
#include <optional>
#include <queue>
#include <random>
#include <stdexcept>
#include <vector>

#include "launcher/core/sweep/schedule/schedule.h"

namespace muster::bench {
namespace {

namespace sweep = launcher::sweep;

constexpr int kEta = 4;
constexpr std::int64_t kLastStep = 256;
constexpr int kBracketTrials = 256;

struct Options {
  int workers = 25;
  int repeats = 2;
  double end = 2000;
  std::vector<double> sigmas{0, 0.24, 0.56, 1.33};
  std::vector<double> losses{0, 0.001, 0.003};
};

struct Job {
  std::int32_t trial = 0;
  std::int64_t until = 0;
};

// A way to spend workers: next() may be asked until it has none; each job ends as arrived or lost.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual std::optional<Job> next() = 0;
  virtual void arrived(const Job& job, double loss) = 0;
  virtual void lost(const Job& job) = 0;
};

class Asha : public Scheduler {
 public:
  std::optional<Job> next() override {
    const auto before = std::chrono::steady_clock::now();
    const sweep::SlotDecision decision = sweep::next_for_slot(kSettings, history_, true);
    decision_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    ++decision_count;
    Job job;
    if (const auto* created = std::get_if<sweep::NewTrial>(&decision.what)) {
      job = {.trial = static_cast<std::int32_t>(history_.trials().size()), .until = created->until};
      apply(sweep::TrialCreated{.trial = job.trial, .point = {}, .bracket = 0, .reason = ""});
    } else if (const auto* run = std::get_if<sweep::NextRun>(&decision.what)) {
      job = {.trial = run->trial, .until = run->until};
    } else {
      return std::nullopt;
    }
    apply(sweep::RunBegan{.trial = job.trial, .run = runs_of(job), .until = job.until});
    return job;
  }
  void arrived(const Job& job, double loss) override {
    apply(sweep::Reported{.trial = job.trial, .step = job.until, .values = {{"loss", loss}}});
    const sweep::ReportDecision decision = sweep::after_report(kSettings, history_, job.trial);
    end(job, std::holds_alternative<sweep::Pause>(decision.what) ? sweep::RunEnd::kPaused
                                                                 : sweep::RunEnd::kStopped);
  }
  void lost(const Job& job) override { end(job, sweep::RunEnd::kLost); }

  double decision_seconds = 0;
  int decision_count = 0;

 private:
  inline static const sweep::ScheduleSettings kSettings{.kind = sweep::ScheduleSettings::Kind::kAsha,
                                                        .objective = {.metric = "loss"},
                                                        .trials = 1'000'000,
                                                        .max_steps = kLastStep,
                                                        .grace_steps = 1,
                                                        .eta = kEta};

  std::int32_t runs_of(const Job& job) const {
    return history_.trials()[static_cast<std::size_t>(job.trial)].run_count;
  }
  void end(const Job& job, sweep::RunEnd end) {
    apply(sweep::RunEnded{.trial = job.trial, .run = runs_of(job) - 1, .end = end});
  }
  void apply(const sweep::Event& event) {
    if (const Status applied = history_.apply(event); !applied)
      throw std::logic_error(applied.error().message());
  }
  sweep::History history_;
};

class SuccessiveHalving : public Scheduler {
 public:
  std::optional<Job> next() override {
    for (Bracket& bracket : brackets_)
      if (auto job = taken_from(bracket)) return job;
    brackets_.emplace_back();
    for (int i = 0; i < kBracketTrials; ++i) {
      bracket_of_.push_back(brackets_.size() - 1);
      brackets_.back().waiting.push_back(static_cast<std::int32_t>(bracket_of_.size()) - 1);
    }
    return taken_from(brackets_.back());
  }
  void arrived(const Job& job, double loss) override {
    Bracket& bracket = brackets_[bracket_of_[static_cast<std::size_t>(job.trial)]];
    bracket.arrived.emplace_back(loss, job.trial);
    if (std::cmp_less(bracket.arrived.size(), bracket.size)) return;
    std::ranges::sort(bracket.arrived);
    bracket.size /= kEta;
    bracket.step *= kEta;
    for (int i = 0; i < bracket.size; ++i)
      bracket.waiting.push_back(bracket.arrived[static_cast<std::size_t>(i)].second);
    bracket.arrived.clear();
  }
  void lost(const Job& job) override {
    brackets_[bracket_of_[static_cast<std::size_t>(job.trial)]].waiting.push_back(job.trial);
  }

 private:
  struct Bracket {
    int size = kBracketTrials;  // of the rung that is being filled
    std::int64_t step = 1;
    std::vector<std::int32_t> waiting{};
    std::vector<std::pair<double, std::int32_t>> arrived{};
  };
  static std::optional<Job> taken_from(Bracket& bracket) {
    if (bracket.waiting.empty()) return std::nullopt;
    const Job job{.trial = bracket.waiting.back(), .until = bracket.step};
    bracket.waiting.pop_back();
    return job;
  }
  std::vector<Bracket> brackets_;
  std::vector<std::size_t> bracket_of_;
};

struct Outcome {
  int trained = 0;   // until R
  double first = 0;  // when the first one was
};

struct End {
  double at = 0;
  Job job;
  bool lost = false;
  bool operator>(const End& other) const { return at > other.at; }
};

Outcome simulate(Scheduler& scheduler, const Options& options, double sigma, double loss,
                 std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  Outcome outcome{.trained = 0, .first = options.end};
  int free = options.workers;
  double now = 0;
  while (now < options.end) {
    for (; free > 0; --free) {
      const std::optional<Job> job = scheduler.next();
      if (!job) break;
      const double slowness = sigma > 0 ? std::abs(std::normal_distribution<>(0, sigma)(rng)) : 0;
      const double duration = static_cast<double>(job->until) * (1 + slowness);
      const double lost_after = loss > 0 ? 1.0 + std::geometric_distribution<>(loss)(rng) : duration + 1;
      ends.push({.at = now + std::min(duration, lost_after), .job = *job, .lost = lost_after < duration});
    }
    const End end = ends.top();
    ends.pop();
    ++free;
    now = end.at;
    if (now > options.end) break;
    if (end.lost) {
      scheduler.lost(end.job);
      continue;
    }
    if (end.job.until == kLastStep && outcome.trained++ == 0) outcome.first = now;
    scheduler.arrived(end.job, std::uniform_real_distribution<>(0, 1)(rng));
  }
  return outcome;
}

void compare(const Options& options) {
  double seconds = 0;
  int decisions = 0;
  fmt::print("{:>6} {:>6} | {:>9} {:>9} | {:>11} {:>11}\n", "sigma", "p", "ASHA", "SHA", "first ASHA",
             "first SHA");
  for (const double sigma : options.sigmas) {
    for (const double loss : options.losses) {
      double trained[2] = {};
      double first[2] = {};
      for (int repeat = 0; repeat < options.repeats; ++repeat) {
        Asha asha;
        SuccessiveHalving halving;
        Scheduler* const schedulers[] = {&asha, &halving};
        for (int i = 0; i < 2; ++i) {
          const Outcome outcome =
              simulate(*schedulers[i], options, sigma, loss, static_cast<std::uint64_t>(repeat));
          trained[i] += outcome.trained;
          first[i] += outcome.first;
        }
        seconds += asha.decision_seconds;
        decisions += asha.decision_count;
      }
      fmt::print("{:>6} {:>6} | {:>9.1f} {:>9.1f} | {:>11.0f} {:>11.0f}\n", sigma, loss,
                 trained[0] / options.repeats, trained[1] / options.repeats, first[0] / options.repeats,
                 first[1] / options.repeats);
      std::fflush(stdout);
    }
  }
  fmt::print("{} decisions of ASHA took {:.0f} us on average\n", decisions, 1e6 * seconds / decisions);
}

}  // namespace
}  // namespace muster::bench

int main(int argument_count, char** arguments) {
  muster::bench::Options options;
  CLI::App app("Trials trained to the end by ASHA and by synchronous successive halving, in simulated time");
  app.add_option("--workers", options.workers)->check(CLI::PositiveNumber);
  app.add_option("--repeats", options.repeats)->check(CLI::PositiveNumber);
  app.add_option("--until", options.end, "units of simulated time")->check(CLI::PositiveNumber);
  app.add_option("--sigma", options.sigmas, "how slow stragglers are");
  app.add_option("--loss", options.losses, "probability that a job is lost in one unit of time")
      ->check(CLI::Range(0.0, 0.99));
  CLI11_PARSE(app, argument_count, arguments);
  muster::bench::compare(options);
}
