// Real training under the real launcher: recovery bit for bit, damaged checkpoints, two owners of one
// directory.
#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "common/base/file.h"
#include "common/checkpoint/memory_slot.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/trace_rules.h"

namespace muster {
namespace {

using testing::HasSubstr;

// Three ranks on the real images; they save a checkpoint every 5 steps.
class LaunchTraining : public testing::Test {
 protected:
  std::vector<std::string> command(const std::string& checkpoints, int steps,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"--gpus-per-node",
                                   "3",
                                   "--device",
                                   "cpu",
                                   "--checkpoint-dir",
                                   scratch_ / checkpoints,
                                   "--max-restarts",
                                   "1",
                                   TRAIN_PROGRAM,
                                   "--batch-size",
                                   "16",
                                   "--num-workers",
                                   "1",
                                   "--checkpoint-every",
                                   "5",
                                   "--max-steps",
                                   std::to_string(steps)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // The shard files of this step's checkpoint.
  std::vector<std::filesystem::path> shards(const std::string& checkpoints, int step) const {
    std::vector<std::filesystem::path> found;
    for (const auto& directory : std::filesystem::directory_iterator(scratch_ / checkpoints)) {
      if (!directory.path().filename().string().starts_with(fmt::format("step-{}.", step))) continue;
      for (const auto& file : std::filesystem::directory_iterator(directory)) {
        if (file.path().extension() == ".safetensors") found.push_back(file.path());
      }
    }
    return found;
  }
  void tear(const std::string& checkpoints, int step) const {
    const auto files = shards(checkpoints, step);
    ASSERT_EQ(files.size(), 3u) << "step " << step;
    std::filesystem::resize_file(files[1], std::filesystem::file_size(files[1]) / 2);
  }
  void damage_manifest(int step) const {
    const std::string path = fmt::format("{}/step-{}.attempt-1/manifest.json", scratch_ / "c", step);
    std::string text = read_file(path, 1 << 20).value();
    text.replace(text.find("\"world_size\":3"), 14, "\"world_size\":2");
    ASSERT_TRUE(write_file_durably(path, text));
  }
  // The paths of all files, relative to the directory, except for the index.
  std::set<std::string> names_in(const std::string& checkpoints) const {
    std::set<std::string> names;
    const std::string directory = scratch_ / checkpoints;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
      names.insert(entry.path().string().substr(directory.size() + 1));
    names.erase("index.json");
    return names;
  }
  ScratchDirectory scratch_;
};

std::string digest_in(const std::string& output) {
  const std::string mark = "parameters xxh3 ";
  const std::size_t at = output.find(mark);
  return at == std::string::npos ? "" : output.substr(at + mark.size(), 32);
}

TEST_F(LaunchTraining, ALostRankCostsStepsButChangesNoBitOfTheResult) {
  LaunchRun undisturbed(command("undisturbed", 24));
  ASSERT_EQ(undisturbed.exit_code(), 0) << undisturbed.err();
  LaunchRun hit(command("hit", 24, {"--fail-at", "2:13"}));
  ASSERT_EQ(hit.exit_code(), 0) << hit.err();

  const auto report = hit.report();
  EXPECT_EQ(report["restarts"], 1);
  EXPECT_EQ(report["attempts"][0]["culprit"]["rank"], 2);
  EXPECT_THAT(hit.err(), HasSubstr("rank 2 (node0) was killed by SIGKILL at step 13"));
  // Step 10 is committed while steps 11 to 13 run; otherwise step 5 is the newest complete one.
  const int resumed = report["attempts"][1]["resumed_step"];
  EXPECT_TRUE(resumed == 10 || resumed == 5) << resumed;
  EXPECT_EQ(report["attempts"][1]["repeated_steps"], 13 - resumed);
  ASSERT_EQ(digest_in(undisturbed.out()).size(), 32u) << undisturbed.out();
  EXPECT_EQ(digest_in(hit.out()), digest_in(undisturbed.out()));
  LaunchRun difference({"ckpt", "diff", scratch_ / "undisturbed", scratch_ / "hit"});
  EXPECT_EQ(difference.exit_code(), 0)
      << "optimizer, generators and place in the data should be the same too: " << difference.out()
      << difference.err();

  const auto profile = undisturbed.report()["attempts"][0]["profile"];
  EXPECT_EQ(profile["steps"], 24);
  ASSERT_THAT(profile["ranks"], testing::SizeIs(3));
  for (const char* part : {"data", "compute", "communicate", "checkpoint"})
    EXPECT_GT(profile["parts"][part]["mean_ms"], 0) << part;
  EXPECT_THAT(undisturbed.err(), HasSubstr("ms a step: "));
}

TEST_F(LaunchTraining, ATraceShowsWhatEachRankDidAndWhen) {
  auto words = command("traced", 16, {"--fail-at", "2:13"});
  words.insert(words.begin(), "--trace");
  LaunchRun run(words);
  ASSERT_EQ(run.exit_code(), 0) << run.err();
  const std::string file = scratch_ / "trace.json";
  LaunchRun gather(
      {"trace", "--log-dir", std::filesystem::path(run.job_directory()).parent_path(), "-o", file});
  ASSERT_EQ(gather.exit_code(), 0) << gather.err();
  const ReadTrace trace(read_file(file, 1 << 28).value());
  EXPECT_THAT(trace.processes(),
              testing::ElementsAre("rank 0 (node0)", "rank 1 (node0)", "rank 2 (node0)", "launcher"));

  // Looks at the attempt without a kill.
  const auto attempt = trace.named(ReadTrace::kLauncher, "attempts", "attempt 2");
  ASSERT_THAT(attempt, testing::SizeIs(1));
  const auto of_it = [&](std::vector<TracedSpan> spans) {
    std::erase_if(spans, [&](const TracedSpan& each) { return each.begin_ns < attempt[0].begin_ns; });
    return spans;
  };
  const auto within = [](const TracedSpan& one, const TracedSpan& other) {
    return other.begin_ns <= one.begin_ns && one.end_ns <= other.end_ns;
  };
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> came_and_left;  // last arrival, first leave
  for (int rank = 0; rank < 3; ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    EXPECT_THAT(of_it(trace.named(rank, "step", "init")), testing::SizeIs(1));
    for (const int step : {14, 15, 16}) {
      const auto found = of_it(trace.named(rank, "step", fmt::format("step {}", step)));
      ASSERT_THAT(found, testing::SizeIs(1)) << step;
      for (const char* part : {"data", "forward", "backward", "communicate"}) {
        const auto parts = trace.named(rank, "step", part);
        EXPECT_TRUE(std::ranges::any_of(parts, [&](const auto& each) { return within(each, found[0]); }))
            << part << " of step " << step;
      }
      // A rank's gradients exist only after its backward pass has begun.
      for (const auto& backward : trace.named(rank, "step", "backward")) {
        auto& [came, left] = came_and_left.try_emplace(found[0].name, 0, INT64_MAX).first->second;
        if (within(backward, found[0])) came = std::max(came, backward.begin_ns);
        if (within(backward, found[0])) left = std::min(left, backward.end_ns);
      }
    }
    std::map<std::string, int> parts;  // parts of one call, such as lengths and then values
    for (const auto& call : of_it(trace.spans(rank, "communication"))) {
      if (!call.arguments.contains("call")) continue;
      const std::string its = fmt::format("{} {}", call.name, call.arguments["call"].dump());
      auto& [came, left] =
          came_and_left.try_emplace(fmt::format("{} part {}", its, ++parts[its]), 0, INT64_MAX).first->second;
      came = std::max(came, call.begin_ns);
      left = std::min(left, call.end_ns);
    }
    EXPECT_FALSE(of_it(trace.named(rank, "data", "load")).empty());
    EXPECT_FALSE(of_it(trace.named(rank, "checkpoint", "save")).empty());
    EXPECT_FALSE(of_it(trace.named(rank, "checkpoint", "restore")).empty());
    const auto commits = of_it(trace.named(rank, "checkpoint writing", "commit"));
    ASSERT_FALSE(commits.empty());
    EXPECT_EQ(commits.back().arguments["step"], 16);
  }
  EXPECT_GE(came_and_left.size(), 3U);
  for (const auto& [what, when] : came_and_left)
    EXPECT_LE(when.first, when.second + 1'000'000) << what << ": a rank left before the last one arrived";
  // Killed ranks may not have sent events from their last quarter of a second.
  EXPECT_THAT(trace.named(ReadTrace::kLauncher, "attempts", "attempt 1"), testing::SizeIs(1));
  EXPECT_THAT(trace.named(ReadTrace::kLauncher, "events", "restart"), testing::SizeIs(1));
}

// The slots that an agent holds in memory, open for reading and writing.
std::vector<std::pair<UniqueFd, SlotHeader>> held_by(pid_t agent) {
  std::vector<std::pair<UniqueFd, SlotHeader>> held;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", agent), gone)) {
    if (!std::filesystem::read_symlink(entry.path(), gone).string().starts_with("/memfd:muster-checkpoint"))
      continue;
    UniqueFd fd(open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    if (const auto header = fd ? read_slot_header(fd.get()) : std::nullopt)
      held.emplace_back(std::move(fd), *header);
  }
  return held;
}
bool holds_a_step(pid_t agent) {
  return !held_by(agent).empty();
}
// The steps of this rank that an agent holds.
std::set<std::uint64_t> steps_held(pid_t agent, int rank) {
  std::set<std::uint64_t> steps;
  for (const auto& [fd, header] : held_by(agent))
    if (header.rank == rank) steps.insert(header.step);
  return steps;
}
// The processes of this rank in a run.
std::vector<pid_t> processes_of(const LaunchRun& run, int rank) {
  auto found = processes_with(fmt::format("RANK={}", rank));
  const auto of_run = run.descendants();
  std::erase_if(found, [&](pid_t pid) { return std::ranges::find(of_run, pid) == of_run.end(); });
  return found;
}

TEST_F(LaunchTraining, ALostRankCostsNoStepThatTheAgentsHoldInMemory) {
  const auto every_20 = [](std::vector<std::string> words) {
    *std::next(std::ranges::find(words, "--checkpoint-every")) = "20";
    return words;
  };
  LaunchRun undisturbed(every_20(command("undisturbed", 30)));
  ASSERT_EQ(undisturbed.exit_code(), 0) << undisturbed.err();
  for (const std::string nodes : {"1", "3"}) {
    SCOPED_TRACE(nodes + " nodes");
    auto words = every_20(command("hit-" + nodes, 30, {"--memory-every", "2", "--fail-at", "1:17"}));
    if (nodes != "1") words[1] = "1";
    words.insert(words.begin(), {"--nodes", nodes, "--memory-tier", "64M"});
    // Ranks must find their node's slots without LOCAL_RANK, too.
    if (nodes == "1") words.insert(words.begin(), "--virtual-local-rank");
    LaunchRun hit(words);
    EXPECT_TRUE(eventually([&] { return std::ranges::any_of(hit.agents(), holds_a_step); },
                           std::chrono::seconds(30)));
    ASSERT_EQ(hit.exit_code(), 0) << hit.err();
    expect_nothing_left(hit);
    const auto report = hit.report();
    EXPECT_EQ(report["restarts"], 1);
    // Step 16 may have been incomplete when rank 1 ended; the disk has nothing before step 20.
    const int resumed = report["attempts"][1].value("resumed_step", 0);
    EXPECT_TRUE(resumed == 16 || resumed == 14) << resumed;
    EXPECT_EQ(report["attempts"][1]["repeated_steps"], 17 - resumed);
    EXPECT_THAT(hit.err(), HasSubstr("attempt 2 begins; no Muster checkpoint on the disk (restart 1 of 1)"));
    EXPECT_THAT(hit.err(),
                HasSubstr(fmt::format("attempt 2 resumes from step {}, which was held in memory", resumed)));
    EXPECT_THAT(hit.out(), HasSubstr(fmt::format("resumed at step {}", resumed)));
    ASSERT_EQ(digest_in(undisturbed.out()).size(), 32u) << undisturbed.out();
    EXPECT_EQ(digest_in(hit.out()), digest_in(undisturbed.out()));
    LaunchRun difference({"ckpt", "diff", scratch_ / "undisturbed", scratch_ / ("hit-" + nodes)});
    EXPECT_EQ(difference.exit_code(), 0) << difference.out() << difference.err();
  }
}

// Two nodes of one rank, whose agents keep copies of each other's memory; the first step on disk is 60.
class LaunchTrainingOfNeighbours : public LaunchTraining {
 protected:
  static constexpr int kOnDisk = 60;
  std::vector<std::string> words(const std::string& checkpoints) const {
    auto all = command(checkpoints, 150, {"--memory-every", "8"});
    all[1] = "1";
    *std::next(std::ranges::find(all, "--checkpoint-every")) = std::to_string(kOnDisk);
    all.insert(all.begin(), {"--nodes", "2", "--memory-tier", "256M"});
    return all;
  }
  // Waits until node 0's agent holds two steps of its own rank and copies of the same steps of rank 1, newer
  // than the disk's; returns the older step, because the agent may not know yet that the newer copy is whole.
  // Stops rank 1 then, to keep that state: an agent skips late copies, and two agents need not have a step in
  // common.
  static std::uint64_t wait_for_copy(const LaunchRun& run) {
    std::uint64_t step = 0;
    const auto is_kept = [&](pid_t agent) {
      const auto copies = steps_held(agent, 1);
      if (copies.size() == 2) step = *copies.begin();
      return copies.size() == 2 && step > kOnDisk && steps_held(agent, 0) == copies;
    };
    const auto stopped_with_a_copy = [&] {
      const pid_t agent = run.agent_of(0);
      if (!is_kept(agent)) return false;
      const auto of_rank_1 = processes_of(run, 1);
      for (const pid_t pid : of_rank_1) kill(pid, SIGSTOP);
      if (is_kept(agent)) return true;
      for (const pid_t pid : of_rank_1) kill(pid, SIGCONT);
      return false;
    };
    EXPECT_TRUE(eventually(stopped_with_a_copy, std::chrono::seconds(60))) << run.err();
    return step;
  }
};

TEST_F(LaunchTrainingOfNeighbours, ALostNodeCostsNoStepThatItsNeighbourHolds) {
  LaunchRun hit(words("hit"));
  const std::uint64_t held = wait_for_copy(hit);
  kill(hit.agent_of(1), SIGKILL);
  ASSERT_EQ(hit.exit_code(), 0) << hit.err();
  expect_nothing_left(hit);
  LaunchRun undisturbed(words("undisturbed"));
  ASSERT_EQ(undisturbed.exit_code(), 0) << undisturbed.err();
  ASSERT_EQ(digest_in(undisturbed.out()).size(), 32u) << undisturbed.out();
  EXPECT_EQ(digest_in(hit.out()), digest_in(undisturbed.out()));
  EXPECT_EQ(hit.report()["restarts"], 1);
  const std::uint64_t resumed = hit.report()["attempts"][1].value("resumed_step", std::uint64_t{0});
  EXPECT_GE(resumed, held);
  EXPECT_THAT(hit.err(),
              HasSubstr(fmt::format("attempt 2 resumes from step {}, which was held in memory", resumed)));
}

TEST_F(LaunchTrainingOfNeighbours, ADamagedCopyIsFoundAndTheDiskIsRead) {
  LaunchRun hit(words("hit"));
  wait_for_copy(hit);
  // Stops the agent, so that no newer copy arrives.
  const pid_t holder = hit.agent_of(0);
  kill(holder, SIGSTOP);
  for (const auto& [fd, header] : held_by(holder))
    if (header.rank == 1) EXPECT_EQ(pwrite(fd.get(), "damage", 6, 9000), 6);
  kill(hit.agent_of(1), SIGKILL);
  kill(holder, SIGCONT);
  ASSERT_EQ(hit.exit_code(), 0) << hit.err();
  expect_nothing_left(hit);
  EXPECT_THAT(hit.err(), HasSubstr("what rank 1 holds in memory is damaged"));
  EXPECT_EQ(hit.report()["attempts"][1].value("resumed_step", 0) % kOnDisk, 0);
  EXPECT_FALSE(hit.err().contains("which was held in memory"));
}

TEST_F(LaunchTrainingOfNeighbours, IfTheNeighbourIsLostTooTheDiskIsRead) {
  LaunchRun hit(words("hit"));
  wait_for_copy(hit);
  const pid_t second = hit.agent_of(1);
  kill(hit.agent_of(0), SIGKILL);
  kill(second, SIGKILL);
  ASSERT_EQ(hit.exit_code(), 0) << hit.err();
  expect_nothing_left(hit);
  EXPECT_FALSE(hit.err().contains("which was held in memory"));
  EXPECT_EQ(hit.report()["attempts"][1].value("resumed_step", 0) % kOnDisk, 0);
}

// No restart is left, so nobody will restore the state in memory.
TEST_F(LaunchTraining, AJobThatFailsForGoodWritesItsMemoryToDisk) {
  LaunchRun undisturbed(command("undisturbed", 30));
  ASSERT_EQ(undisturbed.exit_code(), 0) << undisturbed.err();
  ASSERT_EQ(digest_in(undisturbed.out()).size(), 32u) << undisturbed.out();
  for (const std::string nodes : {"1", "3"}) {
    SCOPED_TRACE(nodes + " nodes");
    auto words = command("c" + nodes, 30, {"--memory-every", "2", "--fail-at", "1:19"});
    *std::next(std::ranges::find(words, "--max-restarts")) = "0";
    if (nodes != "1") words[1] = "1";
    words.insert(words.begin(), {"--nodes", nodes, "--memory-tier", "64M"});
    LaunchRun failed(words);
    EXPECT_EQ(failed.exit_code(), 128 + SIGKILL) << failed.err();
    expect_nothing_left(failed);
    // Step 18 may have been incomplete; the newest step on disk was 15.
    const int step = failed.err().contains("step 18, which was held in memory") ? 18 : 16;
    EXPECT_THAT(failed.err(),
                HasSubstr(fmt::format("node0: step {}, which was held in memory, is a checkpoint in {} now",
                                      step, scratch_ / ("c" + nodes))));
    LaunchRun whole({"ckpt", "verify", scratch_ / ("c" + nodes)});
    EXPECT_EQ(whole.exit_code(), 0) << whole.out() << whole.err();
    EXPECT_THAT(whole.out(), HasSubstr(fmt::format("step {} of attempt 1: whole", step)));
    auto next_words = command("c" + nodes, 30);
    if (nodes != "1") next_words[1] = "1";
    next_words.insert(next_words.begin(), {"--nodes", nodes});
    LaunchRun next(next_words);
    ASSERT_EQ(next.exit_code(), 0) << next.err();
    EXPECT_THAT(next.out(), HasSubstr(fmt::format("resumed at step {}", step)));
    EXPECT_EQ(digest_in(next.out()), digest_in(undisturbed.out()));
  }
}

TEST_F(LaunchTraining, AgentsThatLoseTheirLauncherForGoodWriteTheirMemoryToDisk) {
  auto words = command("c", 100000, {"--memory-every", "2", "--epochs", "100"});
  *std::next(std::ranges::find(words, "--checkpoint-every")) = "90000";
  words.insert(words.begin(), {"--memory-tier", "64M", "--controller-grace", "1", "--grace", "1"});
  LaunchRun killed(words);
  ASSERT_TRUE(eventually([&] { return std::ranges::any_of(killed.agents(), holds_a_step); },
                         std::chrono::seconds(30)));
  killed.signal(SIGKILL);
  EXPECT_EQ(killed.exit_code(), 128 + SIGKILL);
  expect_nothing_left(killed, std::chrono::seconds(20));
  LaunchRun whole({"ckpt", "verify", scratch_ / "c"});
  EXPECT_EQ(whole.exit_code(), 0) << whole.out() << whole.err();
  EXPECT_THAT(whole.out(), HasSubstr(" of attempt 1: whole"));
}

TEST_F(LaunchTraining, WithoutRoomInMemoryItUsesTheDisk) {
  std::vector<std::string> words = command("c", 16, {"--memory-every", "2", "--fail-at", "1:14"});
  words.insert(words.begin(), {"--memory-tier", "1M"});
  LaunchRun hit(words);
  ASSERT_EQ(hit.exit_code(), 0) << hit.err();
  EXPECT_EQ(hit.report()["restarts"], 1);
  EXPECT_TRUE(hit.printed("no checkpoints are held in memory from step ")) << hit.err();
  EXPECT_THAT(hit.out(), testing::AnyOf(HasSubstr("resumed at step 10"), HasSubstr("resumed at step 5")));
}

TEST_F(LaunchTraining, ATornCheckpointIsNamedAndTheEarlierOneIsUsed) {
  LaunchRun first(command("c", 10));
  ASSERT_EQ(first.exit_code(), 0) << first.err();
  LaunchRun whole({"ckpt", "verify", scratch_ / "c"});
  EXPECT_EQ(whole.exit_code(), 0) << whole.out() << whole.err();
  tear("c", 10);
  LaunchRun torn({"ckpt", "verify", scratch_ / "c"});
  EXPECT_EQ(torn.exit_code(), 1);
  EXPECT_THAT(torn.out(),
              HasSubstr("step 5 of attempt 1: whole\nstep 10 of attempt 1: damaged\n  cannot use "));
  LaunchRun exported({"ckpt", "export", scratch_ / "c", scratch_ / "model.safetensors", "--step", "5"});
  EXPECT_EQ(exported.exit_code(), 0) << exported.err();
  LaunchRun second(command("c", 12));
  EXPECT_EQ(second.exit_code(), 0) << second.err();
  EXPECT_THAT(second.out(), HasSubstr("resumed at step 5"));
  EXPECT_THAT(second.err(), HasSubstr("cannot use the checkpoint of step 10"));
}

TEST_F(LaunchTraining, ResumesFromAnExportedAndImportedCheckpoint) {
  LaunchRun first(command("c", 10));
  ASSERT_EQ(first.exit_code(), 0) << first.err();
  const std::string file = scratch_ / "all.safetensors";
  LaunchRun exported({"ckpt", "export", scratch_ / "c", file, "--all", "--step", "10"});
  ASSERT_EQ(exported.exit_code(), 0) << exported.err();
  LaunchRun imported({"ckpt", "import", scratch_ / "copy", file, "--step", "10"});
  ASSERT_EQ(imported.exit_code(), 0) << imported.err();
  LaunchRun here(command("c", 13));
  LaunchRun there(command("copy", 13));
  ASSERT_EQ(here.exit_code(), 0) << here.err();
  ASSERT_EQ(there.exit_code(), 0) << there.err();
  EXPECT_THAT(there.out(), HasSubstr("resumed at step 10"));
  ASSERT_EQ(digest_in(here.out()).size(), 32u);
  EXPECT_EQ(digest_in(there.out()), digest_in(here.out()));
}

TEST_F(LaunchTraining, WithoutAUsableCheckpointItSaysSoAndDoesNotStartFresh) {
  LaunchRun first(command("c", 5));
  ASSERT_EQ(first.exit_code(), 0) << first.err();
  tear("c", 5);
  LaunchRun second(command("c", 6));
  EXPECT_EQ(second.exit_code(), 1) << second.out();
  EXPECT_THAT(second.err(), HasSubstr("step 5"));
  EXPECT_EQ(shards("c", 5).size(), 3u) << "damaged files may be repaired by hand, so nothing is deleted";
}

TEST_F(LaunchTraining, WithDamagedManifestsAloneNothingStartsAndNothingChanges) {
  LaunchRun first(command("c", 10));
  ASSERT_EQ(first.exit_code(), 0) << first.err();
  for (const int step : {5, 10}) damage_manifest(step);
  const auto before = names_in("c");
  LaunchRun second(command("c", 12));
  EXPECT_EQ(second.exit_code(), 2) << second.out();
  EXPECT_THAT(second.err(), testing::ContainsRegex("/c has checkpoints and none can be used; .*Tried: "
                                                   "step 10 of attempt 1 .*manifest.json: .*; "
                                                   "step 5 of attempt 1 "));
  EXPECT_EQ(names_in("c"), before) << "not even an attempt, so that they can be repaired";
}

TEST_F(LaunchTraining, ADamagedManifestIsNamedOnceAndItsCheckpointStays) {
  LaunchRun first(command("c", 10));
  ASSERT_EQ(first.exit_code(), 0) << first.err();
  damage_manifest(10);
  LaunchRun second(command("c", 32));  // more saves than the training keeps
  ASSERT_EQ(second.exit_code(), 0) << second.err();
  EXPECT_THAT(second.out(), HasSubstr("resumed at step 5"));
  const std::string line = "cannot use the checkpoint of step 10 of attempt 1: cannot use ";
  const std::size_t place = second.err().find(line);
  ASSERT_NE(place, std::string::npos) << second.err();
  EXPECT_EQ(second.err().find(line, place + 1), std::string::npos) << second.err();
  EXPECT_THAT(names_in("c"),
              testing::AllOf(testing::Contains("step-10.attempt-1/manifest.json"),
                             testing::Contains("step-10.attempt-1/rank-00002.safetensors"),
                             testing::Not(testing::Contains("step-10.attempt-2/manifest.json"))));
}

TEST_F(LaunchTraining, CtrlCSavesTheStepThatAllRanksAgreeOn) {
  LaunchRun job(command("c", 100000, {"--epochs", "100"}));
  ASSERT_TRUE(
      eventually([&] { return std::filesystem::exists(scratch_ / "c/step-5.attempt-1/manifest.json"); },
                 std::chrono::seconds(30)));
  job.signal(SIGINT);
  EXPECT_EQ(job.exit_code(), 130) << job.err();
  const auto report = job.report();
  EXPECT_EQ(report["lost_steps"], 0);
  const int saved = report["attempts"][0]["committed_step"];
  EXPECT_EQ(saved, report["attempts"][0]["last_step"]);
  EXPECT_THAT(job.err(), HasSubstr(fmt::format("saving step {}; Ctrl-C again stops at once\n", saved)));
  EXPECT_THAT(job.err(), HasSubstr(fmt::format("by SIGINT; step {} is saved; no step is lost", saved)));
  LaunchRun next(command("c", saved + 1));
  EXPECT_EQ(next.exit_code(), 0) << next.err();
  EXPECT_THAT(next.out(), HasSubstr(fmt::format("resumed at step {}", saved)));
}

TEST_F(LaunchTraining, TheOlderOfTwoLaunchesNamesTheJobThatTookItsCheckpointDirectory) {
  LaunchRun older(command("c", 100000, {"--epochs", "100"}));
  // The newer launch can take over only after the older one has committed its first checkpoint.
  ASSERT_TRUE(
      eventually([&] { return std::filesystem::exists(scratch_ / "c/step-5.attempt-1/manifest.json"); },
                 std::chrono::seconds(30)));
  std::vector<std::string> words = command("c", 40);
  words.insert(words.begin(), "--take-over");
  LaunchRun newer(words);
  EXPECT_EQ(newer.exit_code(), 0) << newer.err();
  EXPECT_EQ(older.exit_code(), 125) << older.err();
  const std::string name = newer.report()["job_id"];
  EXPECT_THAT(older.err(), HasSubstr(name)) << "the older one names the job that took over";
  EXPECT_EQ(older.report()["restarts"], 0) << "it does not take the directory back";
  EXPECT_EQ(newer.report()["restarts"], 0);
  std::set<std::string> attempts;
  for (const auto& directory : std::filesystem::directory_iterator(scratch_ / "c")) {
    const std::string folder = directory.path().filename();
    if (std::filesystem::exists(directory.path() / "manifest.json"))
      attempts.insert(folder.substr(folder.find('.')));
  }
  attempts.erase(".attempt-1");
  EXPECT_THAT(attempts, testing::SizeIs(1)) << "the newer one's checkpoints are of one attempt";
}

TEST_F(LaunchTraining, OnNoticeAllRanksSaveOneStepAndTheNextLaunchResumesThere) {
  LaunchRun preempted(command("c", 100000, {"--epochs", "100"}));
  ASSERT_TRUE(
      eventually([&] { return std::filesystem::exists(scratch_ / "c/step-5.attempt-1/manifest.json"); },
                 std::chrono::seconds(30)));
  preempted.signal(SIGTERM);
  EXPECT_EQ(preempted.exit_code(), 75) << preempted.err();
  EXPECT_EQ(preempted.report()["class"], "preempted");
  const int step = preempted.report()["attempts"][0]["last_step"];
  EXPECT_EQ(preempted.report()["attempts"][0]["committed_step"], step) << "no step is lost";
  EXPECT_EQ(shards("c", step).size(), 3U);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string directory = preempted.job_directory() + fmt::format("/attempt_1/rank_{}", rank);
    EXPECT_THAT(read_file(directory + "/stderr.log", 1 << 20).value_or(""),
                HasSubstr(fmt::format("preempted: the checkpoint of step {} is committed\n", step)));
    EXPECT_FALSE(std::filesystem::exists(directory + "/error.json")) << "a preemption is not a failure";
  }
  LaunchRun next(command("c", step + 2, {"--epochs", "100"}));
  EXPECT_EQ(next.exit_code(), 0) << next.err();
  EXPECT_THAT(next.out(), HasSubstr(fmt::format("resumed at step {}", step)));
}

TEST_F(LaunchTraining, TheDemonstrationAlsoLosesItsWorkerInAUsedDirectory) {
  LaunchRun first(command("c", 5));
  ASSERT_EQ(first.exit_code(), 0) << first.err();
  LaunchRun second(command("c", 8, {"--fail-at", "2:7"}));
  EXPECT_EQ(second.exit_code(), 0) << second.err();
  EXPECT_EQ(second.report()["restarts"], 1);
}

TEST_F(LaunchTraining, ATrainingWhoseLastStepCannotBeSavedFails) {
  // No file may grow beyond 64 KiB, so no shard can be written.
  const std::string limited =
      "trap '' XFSZ; ulimit -f 128; exec " TRAIN_PROGRAM " --batch-size 16 --max-steps 2";
  LaunchRun run({"--gpus-per-node", "2", "--device", "cpu", "--checkpoint-dir", scratch_ / "c",
                 "--max-restarts", "0", "--", "/bin/sh", "-c", limited});
  EXPECT_EQ(run.exit_code(), 1) << run.err();
  EXPECT_TRUE(run.printed("the last step could not be saved")) << run.err();
}

TEST_F(LaunchTraining, TheJobFileOfTheDemonstrationIsValid) {
  LaunchRun run({"--config", JOB_FILE, "--checkpoint-dir", scratch_ / "c", "--log-dir", scratch_ / "logs",
                 TRAIN_PROGRAM, "--max-steps", "2", "--batch-size", "16"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node0:0: test accuracy"));
  EXPECT_THAT(run.err(), HasSubstr("4 ranks succeeded"));
}

}  // namespace
}  // namespace muster
