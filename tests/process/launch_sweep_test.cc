// `launch sweep`: real trials of programs that know nothing of Muster, the controller's death, and wrong
// words.
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/checkpoint/manifest.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_sweep_fixture.h"
#include "tests/written_checkpoint.h"

namespace muster {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// The loss is the distance from 3, in a program that knows the mark and nothing else of Muster.
constexpr const char* kDistance = "echo MUSTER_METRIC loss=$(($1 > 3 ? $1 - 3 : 3 - $1))";

// Reports a loss in each of nine steps, and goes on where an earlier run of its trial stopped. 20 ms a step.
constexpr const char* kNineSteps =
    "cd $MUSTER_TRIAL_DIR; step=$(cat step 2>/dev/null || echo 0); echo run >> runs; "
    "while [ $step -lt 9 ]; do step=$((step + 1)); echo MUSTER_METRIC loss=$1 step=$step; "
    "echo $step > step.new; mv step.new step; sleep 0.02; done";

TEST_F(LaunchSweep, RunsAGridAndPrintsTheWinnersCommand) {
  const Printed run = launch(sweep_of(kDistance, {"--space", "x=choice:1:2:3:4:5", "--search", "grid"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("5 trials, 5 finished; best: trial 2, loss=0"));
  EXPECT_THAT(states(), ElementsAre("finished", "finished", "finished", "finished", "finished"));
  const json best = json::parse(launch({"sweep", "best", directory, "--json"}).out);
  EXPECT_EQ(best.at("trial"), 2);
  EXPECT_EQ(best.at("parameters").at("x"), 3);
  EXPECT_THAT(best.at("command").get<std::string>(), testing::EndsWith(" trial 3"));
  EXPECT_THAT(launch({"sweep", "show", "4", directory}).out, HasSubstr("loss"));
  EXPECT_EQ(launch({"sweep", "show", directory, "4"}).out, launch({"sweep", "show", "4", directory}).out);
  const std::string picture = scratch / "picture.svg";
  for (int times = 0; times < 2; ++times) {
    const Printed plot = launch({"sweep", "plot", directory, "-o", picture});
    EXPECT_EQ(plot.exit_code, 2);
    EXPECT_EQ(plot.err, "launch: -o: " + picture + " is not a directory: give one, for two pictures\n");
    std::ofstream(picture) << "";
  }
  const std::string runs = scratch / "runs";
  EXPECT_EQ(launch({"sweep", "export", directory}).exit_code, 2) << "where to?";
  for (int times = 0; times < 2; ++times)
    EXPECT_EQ(launch({"sweep", "export", directory, "--tensorboard", runs}).exit_code, 0);
  std::set<std::string> exported;
  for (const auto& file : std::filesystem::recursive_directory_iterator(runs)) {
    if (!file.is_regular_file()) continue;
    EXPECT_THAT(read_file(file.path(), 1 << 20).value(), HasSubstr("_hparams_/session_start_info"));
    EXPECT_TRUE(exported.insert(file.path().parent_path().filename()).second) << "two files of one trial";
  }
  EXPECT_THAT(exported, ElementsAre("trial-0000", "trial-0001", "trial-0002", "trial-0003", "trial-0004"));
  const std::string folder = directory + "/trials/0004";
  EXPECT_EQ(json::parse(std::ifstream(folder + "/params.json")), (json{{"x", 5}}));
  const json jobs = json::parse(launch({"ps", "--json", "--log-dir", folder}).out);
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].at("state"), "succeeded");
}

TEST_F(LaunchSweep, GivesATrialItsParametersInThreeWays) {
  const std::string look =
      "echo MUSTER_METRIC loss=1 arguments=$1 variable=$MUSTER_PARAM_X file=$(tr -dc 0-9 < $MUSTER_TRIAL_DIR/params.json)";
  ASSERT_EQ(launch(sweep_of(look, {"--space", "x=choice:7", "--search", "grid"})).exit_code, 0);
  const json trial = json::parse(launch({"sweep", "show", "0", directory, "--json"}).out);
  for (const char* way : {"arguments", "variable", "file"})
    EXPECT_EQ(trial.at("metrics").at(way), 7) << trial.dump(1);
}

// The hundredth trial's agent is not given the next one, although it still leaves when that one starts.
TEST_F(LaunchSweep, AnAgentServesAHundredTrials) {
  const std::string tell = "echo $PPID > $MUSTER_TRIAL_DIR/agent; echo MUSTER_METRIC loss=1";
  const Printed run =
      launch(sweep_of(tell, {"--space", "x=int:1:120", "--search", "grid", "--parallel", "1"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  std::map<std::string, int> counts;
  for (int trial = 0; trial < 120; ++trial) ++counts[read_file(file_of(trial, "agent"), 100).value_or("")];
  EXPECT_THAT(counts,
              testing::UnorderedElementsAre(testing::Pair(testing::_, 100), testing::Pair(testing::_, 20)));
}

TEST_F(LaunchSweep, AshaResumesTheBestTrialsWhereTheyWerePaused) {
  const Printed run =
      launch(sweep_of(kNineSteps, {"--space", "x=choice:1:2:3:4:5:6:7:8:9", "--search", "grid", "--scheduler",
                                   "asha", "--max-steps", "9", "--eta", "3"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  std::map<std::string, int> counts;
  for (const std::string& state : states()) ++counts[state];
  EXPECT_GE(counts["finished"], 1);
  EXPECT_GE(counts["paused"], 5) << "most trials end at the first rung";
  EXPECT_EQ(json::parse(launch({"sweep", "best", directory, "--json"}).out).at("parameters").at("x"), 1);
  const json jobs = json::parse(launch({"ps", "--json", "--log-dir", directory + "/trials/0008"}).out);
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].at("state"), "stopped") << "a trial that waits at a rung has not failed";
  EXPECT_EQ(jobs[0].at("exit_code"), 0);
  EXPECT_THAT(jobs[0].at("cause").get<std::string>(), testing::StartsWith("stopped by the sweep: "));
  std::ifstream runs(directory + "/trials/0000/runs");
  EXPECT_GE(std::count(std::istreambuf_iterator<char>(runs), {}, '\n'), 2) << "the best trial was promoted";
}

TEST_F(LaunchSweep, AshaStopsTrialsThatAreWorse) {
  const Printed run =
      launch(sweep_of(kNineSteps, {"--space", "x=choice:1:2:3:4:5:6", "--search", "grid", "--scheduler",
                                   "asha-stop", "--max-steps", "9", "--eta", "3"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  std::map<std::string, int> counts;
  for (const std::string& state : states()) ++counts[state];
  EXPECT_GE(counts["stopped"], 2) << run.err;
  EXPECT_EQ(json::parse(launch({"sweep", "best", directory, "--json"}).out).at("parameters").at("x"), 1);
}

TEST_F(LaunchSweep, TellsHowATrialFailedAndTriesAgainIfItMay) {
  const std::string script =
      "[ $1 = 1 ] && exit 3; "
      "[ $1 = 2 ] && { echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.' >&2; exit 1; }; "
      "[ $1 = 6 ] && { echo \"RuntimeError: DefaultCPUAllocator: can't allocate memory\" >&2; exit 1; }; "
      "[ $1 = 3 ] && [ ! -e $MUSTER_TRIAL_DIR/again ] && { touch $MUSTER_TRIAL_DIR/again; exit 4; }; "
      "[ $1 = 4 ] && { echo MUSTER_METRIC loss=nan; exit 0; }; echo MUSTER_METRIC loss=$1";
  const Printed run = launch(
      sweep_of(script, {"--space", "x=choice:1:2:3:4:5:6", "--search", "grid", "--trial-retries", "1"}));
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(states(),
              ElementsAre("failed", "infeasible", "finished", "finished", "finished", "infeasible"));
  const json all = trials();
  EXPECT_EQ(all[0].at("runs"), 2) << "one retry";
  EXPECT_EQ(all[2].at("runs"), 2);
  EXPECT_EQ(json::parse(launch({"sweep", "best", directory, "--json"}).out).at("parameters").at("x"), 3);
}

TEST_F(LaunchSweep, PrintsJsonWhateverBytesAProgramEndsWith) {
  const Printed run = launch(sweep_of(R"(printf 'bad \377 byte\n' >&2; exit 3)",
                                      {"--space", "x=choice:1", "--search", "grid", "--json"}));
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_THAT(json::parse(run.out).at("trials").at(0).at("text").get<std::string>(), HasSubstr("bad ? byte"));
  EXPECT_EQ(trials().at(0), json::parse(run.out).at("trials").at(0)) << "the journal has the same text";
}

TEST_F(LaunchSweep, SaysThatAMetricNeverCame) {
  const Printed run =
      launch(sweep_of("echo MUSTER_METRIC los=$1", {"--space", "x=choice:1", "--search", "grid"}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("trial 0 finished at step 1: reported no value of loss; it reported los"));
}

TEST_F(LaunchSweep, ReportsOfSeveralRanksWithoutAStepAreOfTheSameStep) {
  // Rank 1 reports all of its steps before rank 0 reports its first one.
  const std::string script =
      "cd $MUSTER_TRIAL_DIR; [ $RANK = 0 ] && until [ -e done ]; do sleep 0.02; done; "
      "for i in 1 2 3; do echo MUSTER_METRIC loss=$((i + RANK)) rank$RANK=$i; done; : > done";
  const Printed run =
      launch(sweep_of(script, {"--space", "x=choice:1", "--search", "grid", "--gpus-per-trial", "2"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json measured = shown(0).at("measured");
  EXPECT_EQ(measured.at("loss").size(), 3U) << measured;
  EXPECT_EQ(measured.at("rank0"), measured.at("rank1"));
}

TEST_F(LaunchSweep, LeavesOutTheFlagOfAParameterThatDoesNotExist) {
  const std::string file = scratch / "sweep.yaml";
  std::ofstream(file)
      << "space:\n  x: [1, 2]\n  y: {choice: [5, 6], when: {x: 2}}\n"
         "metric: count\nsearch: grid\nsweep_dir: "
      << directory << "\n"
      << R"(program: [sh, -c, "echo MUSTER_METRIC count=$#", trial, "--x={x}", --y, "{y}", "--z={y}"])"
      << "\n";
  EXPECT_EQ(launch({"sweep", "run", file}).exit_code, 0);
  std::map<int, int> counts;
  for (const json& trial : trials()) counts[trial.at("parameters").at("x")] = trial.at("metrics").at("count");
  EXPECT_EQ(counts, (std::map<int, int>{{1, 1}, {2, 4}}));
}

TEST_F(LaunchSweep, GoesOnAfterAnAgentWasKilled) {
  LaunchRun run(sweep_of(kNineSteps, {"--space", "x=choice:1:2:3:4", "--search", "grid"}));
  ASSERT_TRUE(eventually([this] { return std::filesystem::exists(directory + "/trials/0001/step"); }));
  // A worker that has not begun its program yet bears its agent's name.
  std::vector<pid_t> agents;
  ASSERT_TRUE(eventually([&] { return (agents = run.agents()).size() == 2; }));
  kill(agents.front(), SIGKILL);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  int runs = 0;
  for (const json& trial : trials()) {
    EXPECT_EQ(trial.at("state"), "finished");
    EXPECT_EQ(trial.at("failures"), 0) << "a lost agent is not the trial's fault";
    runs += trial.at("runs").get<int>();
  }
  EXPECT_EQ(runs, 5);
  expect_nothing_left(run);
}

// Its program exits with 0 when it is told to stop, as programs do that save first.
TEST_F(LaunchSweep, ResumesATrialThatEndedWithItsController) {
  const std::string script =
      "cd $MUSTER_TRIAL_DIR; trap 'exit 0' TERM; [ -e again ] && { echo MUSTER_METRIC loss=1 step=2; exit 0; }; "
      "touch again; while :; do sleep 0.02; done";
  {
    LaunchRun run(sweep_of(script, {"--space", "x=choice:1", "--search", "grid"}));
    ASSERT_TRUE(eventually([this] { return std::filesystem::exists(directory + "/trials/0000/again"); }));
    run.signal(SIGKILL);
    run.exit_code();
    expect_nothing_left(run);
  }
  EXPECT_EQ(launch({"sweep", "resume", directory}).exit_code, 0);
  const json trial = trials().at(0);
  EXPECT_EQ(trial.at("state"), "finished");
  EXPECT_EQ(trial.at("runs"), 2);
}

// Saves after each step, and then reports it. Waits at step 2 of trial 1 for a file. Notes where each run
// begins.
constexpr const char* kSavingSteps =
    "trap 'exit 0' TERM; cd $MUSTER_CHECKPOINT_DIR; step=$(cat step 2>/dev/null || echo 0); "
    "echo $step >> $MUSTER_TRIAL_DIR/begins; while [ $step -lt 3 ]; do step=$((step + 1)); "
    "echo $step > step.new; mv step.new step; "
    "while [ $1$step = 21 ] && [ ! -e $MUSTER_TRIAL_DIR/go ]; do : > $MUSTER_TRIAL_DIR/waits; sleep 0.02; done; "
    "echo MUSTER_METRIC loss=$(($1 * 10 + $step)) step=$step; sleep 0.02; done";

// The controller is killed while trial 0 is paused and trial 1 runs.
TEST_F(LaunchSweep, AshaResumesAPausedTrialFromItsCheckpointAfterItsControllerWasKilled) {
  {
    LaunchRun run(sweep_of(kSavingSteps, {"--space", "x=choice:1:2:3", "--search", "grid", "--scheduler",
                                          "asha", "--max-steps", "3", "--parallel", "1"}));
    ASSERT_TRUE(came(1, "waits")) << run.err();
    run.signal(SIGKILL);
    run.exit_code();
    expect_nothing_left(run);
  }
  EXPECT_EQ(trials().at(0).at("state"), "paused");
  make(1, "go");
  const Printed resumed = launch({"sweep", "resume", directory});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(states(), ElementsAre("finished", "paused", "paused"));
  std::ifstream begins(file_of(0, "begins"));
  int first = -1, second = -1, third = -1;
  EXPECT_TRUE(begins >> first >> second) << "it ran twice";
  EXPECT_FALSE(begins >> third);
  EXPECT_EQ(first, 0);
  EXPECT_GE(second, 1) << "its checkpoint";
  EXPECT_EQ(trials().at(0).at("step"), 3);
}

// Reports without steps, which nobody hears: the controller is stopped, and then killed.
TEST_F(LaunchSweep, CountsUnheardReportsOnFromThePause) {
  const std::string script =
      "trap 'exit 0' TERM; cd $MUSTER_CHECKPOINT_DIR; step=$(cat step 2>/dev/null || echo 0); "
      "[ $step -ge 3 ] && until [ -e $MUSTER_TRIAL_DIR/go ]; do : > $MUSTER_TRIAL_DIR/waits; sleep 0.02; done; "
      "while [ $step -lt 9 ]; do step=$((step + 1)); echo $step > step.new; mv step.new step; "
      "echo MUSTER_METRIC loss=$step; [ $step = 3 ] && while :; do sleep 0.02; done; done; exit 0";
  {
    LaunchRun run(sweep_of(script, {"--space", "x=choice:1", "--search", "grid", "--scheduler", "asha",
                                    "--max-steps", "9", "--grace-steps", "3", "--eta", "3"}));
    ASSERT_TRUE(came(0, "waits")) << run.err();
    run.signal(SIGSTOP);
    make(0, "go");
    EXPECT_TRUE(eventually([this] {
      for (const auto& file : std::filesystem::recursive_directory_iterator(directory + "/trials/0000")) {
        if (file.path().filename() == "metrics.jsonl" && std::filesystem::file_size(file) > 0 &&
            file.path().string().contains("-r1/"))
          return true;
      }
      return false;
    })) << "the agent has seen the end of the second run";
    run.signal(SIGKILL);
    run.exit_code();
    expect_nothing_left(run);
  }
  const Printed resumed = launch({"sweep", "resume", directory});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  const json trial = shown(0);
  EXPECT_EQ(trial.at("state"), "finished");
  EXPECT_EQ(trial.at("runs"), 2);
  const json& losses = trial.at("measured").at("loss");
  ASSERT_EQ(losses.size(), 9U);
  for (int step = 1; const json& each : losses) {
    EXPECT_EQ(each.at("step"), step);
    EXPECT_EQ(each.at("value"), step++);
  }
}

// Saves checkpoints as Muster does, with manifests that the test has made, and keeps the newest. A checkpoint
// has the trial and step of every step that led to it. Both trials wait for files before step 3 and after it.
constexpr const char* kPopulation = R"(
cd $MUSTER_CHECKPOINT_DIR; step=${MUSTER_RESUME_STEP:-0}; way=
[ $step = 0 ] || way=$(cat step-$step.attempt-*/rank-00000.safetensors)
echo $step >> $MUSTER_TRIAL_DIR/begins
wait_for() { until [ -e $MUSTER_TRIAL_DIR/$1 ]; do sleep 0.02; done; }
while [ $step -lt 6 ]; do
  [ $step = 2 ] && wait_for go
  [ $step = 3 ] && wait_for on
  step=$((step + 1)) way="$way $MUSTER_TRIAL:$step" new=step-$step.attempt-$MUSTER_ATTEMPT
  mkdir $new; echo "$way" > $new/rank-00000.safetensors
  cp $MUSTER_SWEEP_DIR/../$step.$MUSTER_ATTEMPT $new/new; mv $new/new $new/manifest.json
  for old in step-*; do [ $old = $new ] || { rm $old/manifest.json; rm -r $old; }; done
  echo MUSTER_METRIC loss=$1 step=$step
done
)";

// Manifests of all checkpoints of the population: scratch/STEP.ATTEMPT.
void make_manifests(const ScratchDirectory& scratch) {
  for (std::uint64_t step = 1; step <= 6; ++step) {
    for (std::uint64_t attempt = 1; attempt <= 2; ++attempt)
      std::ofstream(scratch / fmt::format("{}.{}", step, attempt)) << encode_manifest(
          {.format = 1,
           .id = {step, Attempt(attempt)},
           .job = "job",
           .world_size = 1,
           .files = {{.name = "rank-00000.safetensors", .size_bytes = 1, .xxh3 = std::string(32, '0')}}});
  }
}

TEST_F(LaunchSweep, PbtGivesABadTrialTheCheckpointOfAGoodOne) {
  make_manifests(scratch);
  LaunchRun run(sweep_of(kPopulation, {"--space", "x=uniform:1:9", "--trials", "2", "--scheduler", "pbt",
                                       "--max-steps", "6", "--grace-steps", "3"}));
  const auto step_of = [this](int trial) { return trials().at(trial).at("step"); };
  ASSERT_TRUE(came(1, "begins")) << run.err();
  ASSERT_TRUE(eventually([&] { return step_of(0) == 2 && step_of(1) == 2; })) << run.err();
  const json before = trials();
  const auto x = [](const json& all, int trial) {
    return all.at(trial).at("parameters").at("x").get<double>();
  };
  const int good = x(before, 0) < x(before, 1) ? 0 : 1, bad = 1 - good;
  make(good, "go");
  ASSERT_TRUE(eventually([&] { return step_of(good) == 3; })) << run.err();
  make(bad, "go");
  const auto begins = [&] { return read_file(file_of(bad, "begins"), 100).value_or(""); };
  ASSERT_TRUE(eventually([&] { return begins().size() > 2; })) << run.err();
  const std::string taken = "checkpoints/step-3.attempt-1/rank-00000.safetensors";
  EXPECT_TRUE(std::filesystem::equivalent(file_of(good, taken), file_of(bad, taken))) << "one inode";
  make(good, "on");
  make(bad, "on");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  const json after = trials();
  EXPECT_THAT(states(), testing::Each("finished"));
  EXPECT_EQ(x(after, good), x(before, good));
  EXPECT_NE(x(after, bad), x(before, bad));
  EXPECT_NE(x(after, bad), x(before, good)) << "perturbed";
  EXPECT_EQ(after.at(bad).at("step"), 6);
  EXPECT_EQ(begins(), "0\n3\n");
  for (const auto& file : std::filesystem::recursive_directory_iterator(file_of(bad, "checkpoints"))) {
    if (file.path().filename() == "rank-00000.safetensors")
      EXPECT_EQ(read_file(file.path(), 100).value_or(""),
                fmt::format(" {0}:1 {0}:2 {0}:3 {1}:4 {1}:5 {1}:6\n", good, bad));
  }
}

// With a file of its own format. The first run of the bad trial waits at step 3 until it is told to end, and
// then does three more steps. Each waits for a file: the good trial after step 3, the bad one after step 4.
constexpr const char* kOverruns = R"(
cd $MUSTER_CHECKPOINT_DIR; step=$(cat step 2>/dev/null || echo 0); left=-1
trap 'left=3' TERM INT
wait_for() { until [ -e $MUSTER_TRIAL_DIR/$1 ]; do sleep 0.02; done; }
save() { step=$((step + 1)); echo $step > step.new; mv step.new step; echo MUSTER_METRIC loss=$1 step=$step; }
first=; [ -e $MUSTER_TRIAL_DIR/ran ] || first=yes
: > $MUSTER_TRIAL_DIR/ran
while [ $step -lt 9 ]; do
  [ $step = 2 ] && wait_for go
  if [ $step = 3 ] && [ $first ]; then
    until [ $left = 3 ] || [ -e $MUSTER_TRIAL_DIR/on ]; do sleep 0.02; done
    if [ $left = 3 ]; then save $1; save $1; save $1; exit; fi
  fi
  [ $step = 4 ] && wait_for on
  save $1
done
)";

TEST_F(LaunchSweep, PbtForgetsWhatATrialReportedBeforeItTookOverAnEarlierCheckpoint) {
  LaunchRun run(sweep_of(kOverruns, {"--space", "x=uniform:1:9", "--trials", "2", "--scheduler", "pbt",
                                     "--max-steps", "9", "--grace-steps", "3"}));
  const auto step_of = [this](int trial) { return trials().at(trial).at("step"); };
  ASSERT_TRUE(came(1, "ran")) << run.err();
  ASSERT_TRUE(eventually([&] { return step_of(0) == 2 && step_of(1) == 2; })) << run.err();
  const auto x = [this](int trial) { return trials().at(trial).at("parameters").at("x").get<double>(); };
  const int good = x(0) < x(1) ? 0 : 1, bad = 1 - good;
  const double old = x(bad);
  make(good, "go");
  ASSERT_TRUE(eventually([&] { return step_of(good) == 3; })) << run.err();
  make(bad, "go");
  ASSERT_TRUE(eventually([&] { return shown(bad).at("runs") == 2 && step_of(bad) == 4; })) << run.err();
  const json after = shown(bad);
  EXPECT_EQ(after.at("exploits").at(0).at("step"), 3);
  const auto is = [](int step, double value) { return json{{"step", step}, {"value", value}}; };
  EXPECT_EQ(after.at("measured").at("loss"), (json{is(1, old), is(2, old), is(3, old), is(4, x(bad))}));
  make(good, "on");
  make(bad, "on");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
}

// A file lies where the directory of trial 1 must be.
TEST_F(LaunchSweep, EndsWithOneErrorIfItCannotMakeATrialsDirectory) {
  const std::string script =
      "[ $MUSTER_TRIAL = 0 ] && [ ! -e $MUSTER_SWEEP_DIR/trials/0001 ] && "
      ": > $MUSTER_SWEEP_DIR/trials/0001; echo MUSTER_METRIC loss=$1";
  const Printed run = launch(sweep_of(
      script, {"--space", "x=choice:1:2:3", "--search", "grid", "--parallel", "1", "--trial-retries", "1"}));
  EXPECT_EQ(run.exit_code, 125);
  EXPECT_THAT(run.err, testing::ContainsRegex("cannot start trial 1: cannot create .*/trials/0001: .*; "
                                              "`launch sweep resume` goes on with the sweep\n$"));
  std::filesystem::remove(directory + "/trials/0001");
  EXPECT_EQ(launch({"sweep", "resume", directory}).exit_code, 0);
  EXPECT_THAT(states(), ElementsAre("finished", "finished", "finished"));
  EXPECT_EQ(trials().at(1).at("failures"), 0);
}

// The budget is one of each `sweep run` and `sweep resume`.
TEST_F(LaunchSweep, EndsWhenItsTimeBudgetIsUsedUpAndGoesOnForAsLongAgain) {
  const std::string script = "echo run >> $MUSTER_TRIAL_DIR/runs; exec sleep 1000";
  const Printed run =
      launch(sweep_of(script, {"--space", "x=choice:1", "--search", "grid", "--time-budget", "1"}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("the time budget is used up"));
  const auto runs = [this] { return read_file(file_of(0, "runs"), 100).value_or(""); };
  EXPECT_EQ(runs(), "run\n");
  EXPECT_EQ(launch({"sweep", "resume", directory}).exit_code, 1);
  EXPECT_EQ(runs(), "run\nrun\n");
  EXPECT_EQ(launch({"sweep", "resume", directory, "--time-budget", "soon"}).exit_code, 2);
  EXPECT_THAT(launch({"sweep", "resume", directory, "--parallel", "0"}).err, HasSubstr("--parallel: 0"));
  EXPECT_EQ(runs(), "run\nrun\n");
}

// Each trial waits until all three of the sweep run.
TEST_F(LaunchSweep, GoesOnWithMoreTrialsAtOnceAndAnotherBudget) {
  const std::string script =
      "cd $MUSTER_SWEEP_DIR/trials; : > $MUSTER_TRIAL_DIR/runs; "
      "until [ -e 0000/runs ] && [ -e 0001/runs ] && [ -e 0002/runs ]; do sleep 0.02; done; "
      "echo MUSTER_METRIC loss=$1";
  EXPECT_EQ(launch(sweep_of(script, {"--space", "x=choice:1:2:3", "--search", "grid", "--parallel", "1",
                                     "--time-budget", "0.5"}))
                .exit_code,
            1);
  const Printed resumed = launch({"sweep", "resume", directory, "--parallel", "3", "--time-budget", "1000"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(states(), ElementsAre("finished", "finished", "finished"));
}

TEST_F(LaunchSweep, RefusesTheFlagsOfOtherSubcommands) {
  ASSERT_EQ(launch(sweep_of(kDistance, {"--space", "x=choice:1", "--search", "grid"})).exit_code, 0);
  const std::string file = scratch / "file";
  const std::pair<Words, const char*> wrong[] = {
      {{"resume", directory, "--trials", "3"},
       "--trials: `launch sweep resume` takes only --parallel, --time-budget, --json; "
       "`launch sweep run` takes it for a new sweep"},
      {{"status", directory, "--state", "failed"}, "--state"},
      {{"best", directory, "--once"}, "--once: `launch sweep best` takes only --json"},
      {{"show", "0", directory, "--metric", "x"}, "--metric"},
      {{"ask", directory, "--trials", "3"}, "--trials"},
      {{"tell", directory, "0", "loss=1", "-o", file}, "-o"},
      {{"cancel", directory, "--json"}, "--json: `launch sweep cancel` takes no flags"},
      {{"importance", directory, "--step", "1"}, "--step"},
      {{"plot", directory, "--tensorboard", file}, "--tensorboard"},
      {{"export", directory, "--study", "x"}, "--study"},
      {{"import", directory, file, "--seed", "1"}, "--seed"},
  };
  for (const auto& [words, text] : wrong) {
    const Printed answer = launch(with({"sweep"}, words));
    EXPECT_EQ(answer.exit_code, 2) << answer.err;
    EXPECT_EQ(std::ranges::count(answer.err, '\n'), 1) << answer.err;
    EXPECT_THAT(answer.err, HasSubstr(text));
  }
}

// The controller is killed in the middle; the resumed sweep has the trials and values of an undisturbed one.
TEST_F(LaunchSweep, ResumesAfterItsControllerWasKilled) {
  const Words flags{"--space", "x=choice:1:2:3:4:5:6", "--search", "grid", "--parallel", "1"};
  {
    LaunchRun run(sweep_of(kNineSteps, flags));
    ASSERT_TRUE(eventually([this] { return std::filesystem::exists(directory + "/trials/0002/step"); }));
    run.signal(SIGKILL);
    run.exit_code();
    expect_nothing_left(run);
  }
  const Printed resumed = launch({"sweep", "resume", directory});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  const json all = trials();
  ASSERT_EQ(all.size(), 6U);
  for (int number = 0; number < 6; ++number) {
    EXPECT_EQ(all[number].at("state"), "finished");
    EXPECT_EQ(all[number].at("parameters").at("x"), number + 1);
    EXPECT_EQ(all[number].at("step"), 9);
  }
  std::vector<double> times;
  for (const json& trial : all) {
    times.push_back(trial.at("began_at"));
    times.push_back(trial.at("ended_at"));
  }
  EXPECT_TRUE(std::ranges::is_sorted(times)) << "the clock goes on: " << all.dump(1);
  EXPECT_EQ(all[0].at("runs"), 1) << "it had finished";
  EXPECT_EQ(all[2].at("runs"), 2);
}

TEST_F(LaunchSweep, EndsOnASignalAndGoesOnLater) {
  {
    LaunchRun run(sweep_of(kNineSteps, {"--space", "x=choice:1:2:3:4:5:6", "--search", "grid"}));
    ASSERT_TRUE(eventually([this] { return std::filesystem::exists(directory + "/trials/0001/step"); }));
    const Printed other = launch({"sweep", "resume", directory});
    EXPECT_EQ(other.exit_code, 2);
    EXPECT_THAT(other.err, HasSubstr(std::to_string(run.pid()))) << "names the controller";
    run.signal(SIGINT);
    EXPECT_EQ(run.exit_code(), 130);
    expect_nothing_left(run);
  }
  EXPECT_EQ(launch({"sweep", "resume", directory}).exit_code, 0);
  EXPECT_THAT(states(), testing::Each("finished"));
  EXPECT_EQ(trials().size(), 6U);
}

TEST_F(LaunchSweep, IsStoppedByCancel) {
  LaunchRun run(sweep_of("echo ready > $MUSTER_TRIAL_DIR/ready; exec sleep 1000",
                         {"--space", "x=choice:1", "--search", "grid"}));
  ASSERT_TRUE(eventually([this] { return std::filesystem::exists(directory + "/trials/0000/ready"); }));
  EXPECT_THAT(launch({"sweep", "cancel", directory}).out, HasSubstr("`launch sweep resume` goes on"));
  EXPECT_EQ(run.exit_code(), 130);
  expect_nothing_left(run);
}

// Holds the controller's lock until the signal comes, as a controller does whose last trial has just ended.
TEST_F(LaunchSweep, CancelSaysThatTheSweepHadEnded) {
  ASSERT_EQ(launch(sweep_of(kDistance, {"--space", "x=choice:1", "--search", "grid"})).exit_code, 0);
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGINT);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t controller = fork();
  if (controller == 0) {
    sigprocmask(SIG_BLOCK, &wanted, nullptr);
    const std::string path = directory + "/controller";
    const int file = open(path.c_str(), O_RDWR);
    const std::string text = "host " + std::to_string(getpid()) + "\n";
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    const bool held = pwrite(file, text.data(), text.size(), 0) > 0 && ftruncate(file, text.size()) == 0 &&
                      fcntl(file, F_OFD_SETLK, &lock) == 0;
    int signal = 0;
    if (held && write(ready[1], "+", 1) == 1) sigwait(&wanted, &signal);
    _exit(signal == SIGINT ? 0 : 1);
  }
  close(ready[1]);
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  close(ready[0]);
  EXPECT_EQ(launch({"sweep", "cancel", directory}).out, directory + " had come to its end\n");
  int status = -1;
  EXPECT_EQ(waitpid(controller, &status, 0), controller);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace muster
