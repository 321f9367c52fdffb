// `launch ckpt` on directories like those that several ranks write.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/checkpoint/reader.h"
#include "tests/process/launch_run.h"
#include "tests/scratch_directory.h"
#include "tests/written_checkpoint.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using CkptWords = std::vector<std::string>;

struct CkptSaid {
  int exit_code;
  std::string out;
  std::string err;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

CkptSaid launch_ckpt(CkptWords words) {
  words.insert(words.begin(), "ckpt");
  LaunchRun run(words);
  const int exit_code = run.exit_code();
  return {exit_code, run.out(), run.err()};
}

std::string ckpt_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void flip_bit(const std::string& path, std::uint64_t place) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(place));
  const char byte = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(place));
  file.put(static_cast<char>(byte ^ 4));
}

// A safetensors file like those of other tools.
std::string strangers_file(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

// Steps 100, 200 and 300 of one attempt, whose process has ended.
class LaunchCkpt : public testing::Test {
 protected:
  LaunchCkpt() {
    std::filesystem::create_directories(dir);
    for (const std::uint64_t step : {100, 200, 300}) {
      WrittenCheckpoint checkpoint = example_checkpoint();
      checkpoint.metrics["accuracy"] = step == 200 ? 0.9 : 0.5;
      checkpoint.values["step"] = fmt::format("int64:{}", step);
      checkpoint.tensors["model.linear.bias"] =
          written_tensor(Dtype::kF32, {16}, static_cast<unsigned>(step));
      manifests[step] = write_checkpoint(directory, {.step = step, .attempt = Attempt(1)}, checkpoint);
    }
    write_attempt(R"("host":"elsewhere")");
  }
  // Sets the process that has begun the only attempt.
  void write_attempt(const std::string& owner) const {
    std::filesystem::create_directories(dir + "/attempts");
    const std::string record = R"({"format":1,"attempt":1,"job":"job",)" + owner + R"(,"resume":null})";
    std::ofstream(dir + "/attempts/000001.json") << record;
    std::ofstream(dir + "/attempts/000001.claim") << record;
  }
  std::string step_path(std::uint64_t step) const { return fmt::format("{}/step-{}.attempt-1", dir, step); }
  std::vector<std::uint64_t> steps() const {
    std::vector<std::uint64_t> found;
    for (const CheckpointId id : directory.committed().value()) found.push_back(id.step);
    return found;
  }

  ScratchDirectory scratch;
  const std::string dir = scratch / "ckpt";
  const CheckpointDirectory directory{dir};
  std::map<std::uint64_t, CheckpointManifest> manifests;
};

TEST_F(LaunchCkpt, ListsWhatIsThere) {
  ASSERT_TRUE(directory.pin({.step = 100, .attempt = Attempt(1)}));
  std::filesystem::create_directory(step_path(400));  // never committed
  std::filesystem::create_directory(dir + "/step-250.attempt-1");
  std::ofstream(dir + "/step-250.attempt-1/manifest.json") << "{";
  const CkptSaid said = launch_ckpt({"ls", dir});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, testing::StartsWith("STEP  ATTEMPT  WRITTEN"));
  EXPECT_THAT(said.out,
              testing::ContainsRegex(" 300        1  2023-11-14T22:18:20Z +[0-9.]+ (B|KiB)  accuracy=0.5 +"
                                     "latest, stays: the newest\n"));
  EXPECT_THAT(said.out, testing::ContainsRegex(" 100 .* stays: pinned\n"));
  EXPECT_THAT(said.out, testing::ContainsRegex(
                            " 250 .* cannot use .*/step-250.attempt-1/manifest.json: not a manifest"));
  EXPECT_THAT(said.out, AllOf(Not(HasSubstr(" 400 ")), Not(HasSubstr("\033"))));
  const auto json = launch_ckpt({"ls", dir, "--json"}).json();
  ASSERT_EQ(json.size(), 4u);
  EXPECT_EQ(json[0]["step"], 300);
  EXPECT_EQ(json[0]["latest"], true);
  EXPECT_EQ(json[1]["usable"], false);
  EXPECT_EQ(json[2]["metrics"]["accuracy"], 0.9);
  EXPECT_EQ(json[3]["pinned"], true);
  EXPECT_EQ(json[3]["stays"], "pinned");
  EXPECT_EQ(json[2]["stays"], nullptr);
}

TEST_F(LaunchCkpt, ShowsTheTensorsAndValuesOfOne) {
  const CkptSaid said = launch_ckpt({"show", dir, "--step", "best", "--metric", "accuracy", "--mode", "max"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out,
              HasSubstr("step 200 of attempt 1: written 2023-11-14T22:16:40Z by 2 ranks of job job"));
  EXPECT_THAT(said.out, testing::ContainsRegex("model.linear.weight +F32 +\\[16, 9\\] +576 B  2 parts\n"));
  EXPECT_THAT(said.out, HasSubstr("optimizer.lr.0 = double:0.01\n"));
  EXPECT_THAT(said.out, testing::ContainsRegex("only rank 1:\n  rng.cpu  U8 +\\[40\\]"));
  const auto json = launch_ckpt({"show", step_path(300), "--json"}).json();
  EXPECT_EQ(json["step"], 300);
  const auto& weight = json["tensors"]["model.linear.weight"];
  EXPECT_EQ(weight["dtype"], "F32");
  EXPECT_EQ(weight["parts"][1]["offsets"], nlohmann::json({8, 0}));
  EXPECT_EQ(weight["parts"][1]["file"], "rank-00001.safetensors");
  EXPECT_EQ(json["own"].size(), 2u);
}

TEST_F(LaunchCkpt, VerifiesEveryByte) {
  const CkptSaid whole = launch_ckpt({"verify", dir});
  EXPECT_EQ(whole.exit_code, 0) << whole.out << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("step 100 of attempt 1: whole\nstep 200 of attempt 1: whole\nstep 300"));
  const StoredPart& part = manifests[200].shared.tensors.at("model.linear.weight").parts.at(1);
  const std::string file = step_path(200) + "/rank-00001.safetensors";
  const std::uint64_t place = part.offset_bytes + 50;
  flip_bit(file, place);
  const CkptSaid damaged = launch_ckpt({"verify", dir});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.out, HasSubstr(fmt::format("step 200 of attempt 1: damaged\n  {}: "
                                                 "bytes {} to {} are not those that were written: tensor ",
                                                 file, place / 256 * 256, place / 256 * 256 + 256)));
  EXPECT_THAT(damaged.out,
              HasSubstr(fmt::format("model.linear.weight[8:16,0:9] from byte {} on", part.offset_bytes)));
  EXPECT_EQ(launch_ckpt({"verify", dir, "--step", "latest"}).exit_code, 0);
  const auto json = launch_ckpt({"verify", step_path(200), "--json"}).json();
  EXPECT_EQ(json[0]["whole"], false);
  EXPECT_EQ(json[0]["damage"][0]["file"], "rank-00001.safetensors");
  EXPECT_EQ(json[0]["damage"][0]["begin"], place / 256 * 256);
  std::filesystem::remove(file);
  EXPECT_THAT(launch_ckpt({"verify", dir}).out, HasSubstr("cannot open " + file + ": No such file"));
  std::ofstream(step_path(300) + "/manifest.json") << "{}";
  EXPECT_THAT(launch_ckpt({"verify", dir}).out, HasSubstr("step 300 of attempt 1: damaged\n  cannot use"));
}

TEST_F(LaunchCkpt, ComparesTwo) {
  const CkptSaid same = launch_ckpt({"diff", step_path(100), step_path(100)});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(same.out, "the same\n");
  const CkptSaid steps = launch_ckpt({"diff", dir, "--step", "100", "--other-step", "300"});
  EXPECT_EQ(steps.exit_code, 1);
  EXPECT_THAT(steps.out,
              testing::MatchesRegex("model.linear.bias: [0-9]+ of 64 bytes differ, the first is [0-9]+; "
                                    "at most [^ ]+ at \\[[0-9]+\\]\n"
                                    "step: int64:100 and int64:300\n"
                                    "largest difference: [^ ]+ at \\[[0-9]+\\] in model.linear.bias\n"));
  WrittenCheckpoint other = example_checkpoint();
  other.tensors["model.linear.bias"] = written_tensor(Dtype::kF32, {17}, 1);
  other.tensors.erase("model.embedding");
  other.tensors["model.new"] = written_tensor(Dtype::kI8, {2}, 1);
  const CheckpointDirectory second(scratch / "second");
  second.begin_attempt("job").value();
  write_checkpoint(second, {.step = 1, .attempt = Attempt(1)}, other);
  const auto json = launch_ckpt({"diff", step_path(300), second.path(), "--json"}).json();
  EXPECT_EQ(json["same"], false);
  EXPECT_EQ(json["tensors"]["model.linear.bias"], "F32 [16] and F32 [17]");
  EXPECT_EQ(json["tensors"]["model.embedding"], "only in the first, BF16 [33, 4, 5]");
  EXPECT_EQ(json["tensors"]["model.new"], "only in the second, I8 [2]");
  EXPECT_EQ(json["values"]["step"], nlohmann::json({"int64:300", nullptr}));
}

TEST_F(LaunchCkpt, FindsTheLargestDifference) {
  const auto saved_in = [this](const char* name, const std::vector<float>& weight, std::int64_t count,
                               const std::string& halves) {
    const auto bytes = [](const auto& values) {
      return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]);
    };
    WrittenCheckpoint checkpoint{.tensors = {}};
    checkpoint.tensors["model.weight"] = {.dtype = Dtype::kF32, .shape = {4, 2}, .bytes = bytes(weight)};
    checkpoint.tensors["model.count"] = {
        .dtype = Dtype::kI64, .shape = {}, .bytes = bytes(std::vector{count})};
    checkpoint.tensors["model.half"] = {.dtype = Dtype::kF16, .shape = {2}, .bytes = halves};
    const CheckpointDirectory made(scratch / name);
    made.begin_attempt("job").value();
    write_checkpoint(made, {.step = 1, .attempt = Attempt(1)}, checkpoint);
    return made.path();
  };
  const std::string one("\x00\x3c", 2), two("\x00\x40", 2), nan("\x00\x7e", 2);
  const std::int64_t big = (std::int64_t{1} << 60) + 1;
  const std::string first = saved_in("first", {1, 2, 3, 4, 5, 6, 7, 8}, big, one + one);
  const std::string second = saved_in("second", {1, 2, 3, 4, 5, 6.5, 7, 8.25}, big + 3, one + two);
  EXPECT_EQ(launch_ckpt({"diff", first, second}).out,
            "model.count: 1 of 8 bytes differ, the first is 0; at most 3\n"
            "model.half: 1 of 4 bytes differ, the first is 3; at most 1 at [1]\n"
            "model.weight: 2 of 32 bytes differ, the first is 22; at most 0.5 at [2, 1]\n"
            "largest difference: 3 in model.count\n");
  const std::string third = saved_in("third", {1, 2, 3, 4, 5, 6, 7, 8}, big, nan + one);
  EXPECT_THAT(launch_ckpt({"diff", first, third}).out,
              HasSubstr("largest difference: inf at [0] in model.half\n"));
}

TEST_F(LaunchCkpt, PrunesWhatIsNotKeptAndOnlyWhenAsked) {
  const CkptSaid listed =
      launch_ckpt({"prune", dir, "--dry-run", "--best", "1", "--metric", "accuracy", "--mode", "max"});
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_THAT(listed.out, HasSubstr("would go  step 100 of attempt 1: old\n"
                                    "stays     step 200 of attempt 1: one of the best 1\n"
                                    "stays     step 300 of attempt 1: the newest\n"
                                    "1 of 3 checkpoints, "));
  EXPECT_THAT(steps(), testing::ElementsAre(100, 200, 300));
  // This machine cannot know whether a process of another machine runs.
  const CkptSaid elsewhere = launch_ckpt({"prune", dir, "--keep", "1", "--yes"});
  EXPECT_EQ(elsewhere.exit_code, 2);
  EXPECT_THAT(
      elsewhere.err,
      HasSubstr(
          "was last used by job job (process 0) on host elsewhere: if that job no longer runs, give --force"));
  ASSERT_EQ(launch_ckpt({"pin", dir, "--step", "100"}).out, "step 100 of attempt 1 is pinned\n");
  const CkptSaid unasked = launch_ckpt({"prune", dir, "--keep", "1", "--force"});
  EXPECT_EQ(unasked.exit_code, 2);
  EXPECT_THAT(unasked.err, HasSubstr("launch: --yes is missing: "
                                     "there is no terminal to ask whether to remove 1 of 3 checkpoints, "));
  EXPECT_EQ(steps().size(), 3u);
  EXPECT_EQ(launch_ckpt({"prune", dir, "--keep", "1", "--yes", "--force"}).exit_code, 0);
  EXPECT_THAT(steps(), testing::ElementsAre(100, 300));
  ASSERT_EQ(launch_ckpt({"unpin", step_path(100)}).out, "step 100 of attempt 1 is no longer pinned\n");
  const auto json = launch_ckpt({"prune", dir, "--every", "7", "--yes", "--force", "--json"}).json();
  EXPECT_EQ(json[0]["removed"], true);
  EXPECT_THAT(steps(), testing::ElementsAre(300));
}

TEST_F(LaunchCkpt, PrunesNothingThatWasPinnedDuringTheQuestion) {
  const std::string line = fmt::format("ckpt prune {} --keep 1 --force", dir);
  const AnsweredRun changed = answered_on_terminal(
      line, "y", {}, [this] { ASSERT_TRUE(directory.pin({.step = 100, .attempt = Attempt(1)})); });
  EXPECT_EQ(changed.exit_code, 1);
  EXPECT_THAT(changed.out, HasSubstr(fmt::format("launch: {} has changed since the question: "
                                                 "nothing was removed: start again\r\n",
                                                 dir)));
  EXPECT_THAT(steps(), testing::ElementsAre(100, 200, 300));
  EXPECT_EQ(answered_on_terminal(line, "y").exit_code, 0);
  EXPECT_THAT(steps(), testing::ElementsAre(100, 300));
}

TEST_F(LaunchCkpt, RemovesNothingWhereATrainingRuns) {
  directory.begin_attempt("job").value();  // by this process
  const CkptSaid refused = launch_ckpt({"prune", dir, "--keep", "1", "--yes", "--force"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err,
              HasSubstr(fmt::format("launch: {} is in use by job job (process {}), which is running\n", dir,
                                    getpid())));
  EXPECT_EQ(steps().size(), 3u);
}

TEST_F(LaunchCkpt, ExportsTheModelByteForByte) {
  const std::string file = scratch / "model.safetensors";
  const CkptSaid said = launch_ckpt({"export", dir, "-o", file});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr(file + ": 6 tensors of step 300 of attempt 1"));
  const std::string bytes = ckpt_bytes(file);
  const auto header = read_header(file).value();
  ASSERT_EQ(header.tensors.size(), 6u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
  WrittenCheckpoint written = example_checkpoint();
  written.tensors["model.linear.bias"] = written_tensor(Dtype::kF32, {16}, 300);
  for (const HeaderTensor& tensor : header.tensors) {
    const WrittenTensor& expected = written.tensors.at("model." + tensor.name);
    EXPECT_EQ(tensor.shape, expected.shape);
    EXPECT_EQ(bytes.substr(tensor.begin_bytes, tensor.size_bytes), expected.bytes) << tensor.name;
  }
  EXPECT_THAT(launch_ckpt({"export", dir, file}).err, HasSubstr(file + " exists: name another file"));
}

TEST_F(LaunchCkpt, ImportsWhatItExported) {
  const std::string file = scratch / "all.safetensors";
  ASSERT_EQ(launch_ckpt({"export", dir, file, "--all", "--step", "200"}).exit_code, 0);
  const std::string copy = scratch / "copy";
  const CkptSaid said = launch_ckpt({"import", copy, file, "--step", "200"});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr(copy + "/step-200.attempt-1: 9 tensors"));
  const CkptSaid difference = launch_ckpt({"diff", step_path(200), copy});
  EXPECT_EQ(difference.exit_code, 0) << difference.out << difference.err;
  EXPECT_EQ(launch_ckpt({"verify", copy}).exit_code, 0);
  const auto resumable = CheckpointDirectory(copy).resumable().value();
  ASSERT_EQ(resumable.size(), 1u) << "a training begins with it";
  EXPECT_THAT(launch_ckpt({"import", copy, file}).err, HasSubstr("already has checkpoints"));
}

TEST_F(LaunchCkpt, ImportsFilesOfOtherTools) {
  const std::string file = scratch / "stranger.safetensors";
  const std::string data = "abcdefghijklmnop";
  std::ofstream(file, std::ios::binary) << strangers_file(
      R"({"__metadata__":{"producer":"x"},"encoder.bf":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
      R"("f8":{"dtype":"F8_E5M2","shape":[3],"data_offsets":[4,7]},"scalar":{"dtype":"F64","shape":[],"data_offsets":[8,16]},)"
      R"("none":{"dtype":"F32","shape":[0,5],"data_offsets":[7,7]},"odd":{"dtype":"BOOL","shape":[1],"data_offsets":[7,8]}}   )",
      data);
  const std::string imported = scratch / "imported";
  ASSERT_EQ(launch_ckpt({"import", imported, file}).exit_code, 0);
  const auto json = launch_ckpt({"show", imported, "--json"}).json();
  EXPECT_EQ(json["step"], 0);
  EXPECT_EQ(json["tensors"].size(), 5u);
  EXPECT_EQ(json["tensors"]["model.encoder.bf"]["dtype"], "BF16");
  const std::string again = scratch / "again.safetensors";
  ASSERT_EQ(launch_ckpt({"export", imported, again}).exit_code, 0);
  const std::string bytes = ckpt_bytes(again);
  std::map<std::string, std::string> content;
  for (const HeaderTensor& tensor : read_header(again).value().tensors)
    content[tensor.name] = bytes.substr(tensor.begin_bytes, tensor.size_bytes);
  EXPECT_EQ(content,
            (std::map<std::string, std::string>{
                {"encoder.bf", "abcd"}, {"f8", "efg"}, {"scalar", "ijklmnop"}, {"none", ""}, {"odd", "h"}}));
}

TEST_F(LaunchCkpt, AFullDiskLeavesNothingHalfWritten) {
  const std::string place = scratch / "small";
  std::filesystem::create_directory(place);
  WrittenCheckpoint large = example_checkpoint();
  large.tensors["model.large"] = written_tensor(Dtype::kF32, {1 << 18}, 1);
  write_checkpoint(directory, {.step = 400, .attempt = Attempt(1)}, large);
  LaunchRun run(
      {"-rm", "sh", "-c",
       fmt::format(
           "mount -t tmpfs -o size=256k none {0} || exit 77; {1} ckpt export {2} {0}/model.safetensors; "
           "code=$?; ls -A {0}; exit $code",
           place, LAUNCH_PROGRAM, dir)},
      {}, "/usr/bin/unshare");
  const int exit_code = run.exit_code();
  if (exit_code == 77 || run.err().find("unshare failed") != std::string::npos)
    GTEST_SKIP() << "no file system may be mounted here: " << run.err();
  EXPECT_EQ(exit_code, 1);
  EXPECT_THAT(run.err(), HasSubstr("No space left on device"));
  EXPECT_EQ(run.out(), "") << "nothing is left";
}

TEST_F(LaunchCkpt, ADamagedCheckpointIsNotExported) {
  flip_bit(step_path(300) + "/rank-00000.safetensors", manifests[300].files[0].size_bytes - 60);
  const std::string file = scratch / "all.safetensors";
  const CkptSaid said = launch_ckpt({"export", dir, file, "--all"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.err, HasSubstr("are not those that were written"));
  for (const auto& each : std::filesystem::directory_iterator(scratch.path()))
    EXPECT_EQ(each.path().filename(), "ckpt") << "and nothing is left";
}

TEST_F(LaunchCkpt, OneOfTheFirstFormatIsReadAsWell) {
  const std::string old = GOLDEN_DIRECTORY "/checkpoint_format_1";
  const std::string copy = scratch / "old";
  std::filesystem::copy(old, copy, std::filesystem::copy_options::recursive);
  EXPECT_EQ(launch_ckpt({"verify", copy}).exit_code, 0);
  EXPECT_THAT(launch_ckpt({"show", copy}).out,
              AllOf(HasSubstr("format 1"), HasSubstr("optimizer.linear1.bias.exp_avg ")));
  const std::string file = scratch / "old.safetensors";
  EXPECT_THAT(launch_ckpt({"export", copy, file}).out, HasSubstr("13 tensors of step 6"));
  flip_bit(copy + "/step-6.attempt-1/rank-00001.safetensors", 30000);
  EXPECT_EQ(launch_ckpt({"verify", copy}).exit_code, 1);
  EXPECT_EQ(launch_ckpt({"export", copy, file + "2"}).exit_code, 1);
}

TEST_F(LaunchCkpt, OneOfANewerFormatIsNeitherWholeNorDamaged) {
  const std::string body = R"({"format":3})";
  std::ofstream(step_path(300) + "/manifest.json")
      << fmt::format(R"({{"body":{},"xxh3":"{}"}})", body, xxh3_digest(body));
  const CkptSaid said = launch_ckpt({"verify", dir});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("use the version that wrote it, or a newer one"));
}

TEST_F(LaunchCkpt, AnswersWrongUseInOneLine) {
  const std::string nothing = scratch / "nothing";
  std::filesystem::create_directory(nothing);
  std::ofstream(scratch / "text") << "no tensors";
  std::ofstream(scratch / "empty", std::ios::binary) << strangers_file("{}", "");
  std::ofstream(scratch / "f99", std::ios::binary)
      << strangers_file(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", "abcd");
  const std::pair<CkptWords, std::string> wrong[] = {
      {{}, "ckpt: say what to do: ls show verify"},
      {{"list", dir}, "ckpt: list: not one of ls show"},
      {{"ls"}, "ckpt ls: the checkpoint directory is missing: `launch ckpt ls DIR`"},
      {{"export", dir}, "ckpt export: the file is missing: `launch ckpt export DIR -o FILE`"},
      {{"export", dir, "a", "-o", "b"}, "--output b and a: give one file"},
      {{"export", dir, "-o", "-"}, "--output: - is not a file: give one, such as model.safetensors"},
      {{"export", dir, "-o", ""}, "--output: (empty) is not a file: give one, such as model.safetensors"},
      {{"export", dir, "-o", dir + "/none/model.safetensors"},
       dir + "/none is not a directory: create it, or give another file"},
      {{"ls", dir, dir}, "is one argument too many"},
      {{"ls", dir, "--yes"}, "--yes: not a flag of `launch ckpt ls`"},
      {{"ls", dir + "x"}, dir + "x: No such file or directory"},
      {{"ls", scratch / "text"}, "text: not a directory"},
      {{"ls", nothing}, nothing + " has no checkpoint"},
      {{"show", dir, "--step", "7"}, "has no checkpoint of step 7; it has steps 100, 200, 300"},
      {{"show", dir, "--step", "first"}, "--step: first is not a step, latest or best"},
      {{"show", dir, "--step", "best"}, "give --metric NAME --mode min|max"},
      {{"show", dir, "--step", "best", "--metric", "accuracy"}, "--metric needs --mode too"},
      {{"show", dir, "--step", "best", "--metric", "loss", "--mode", "min"},
       "no checkpoint has the metric loss"},
      {{"show", dir, "--step", "best", "--metric", "loss", "--mode", "least"},
       "--mode: least is neither min nor max"},
      {{"show", dir, "--metric", "loss", "--mode", "min"},
       "--metric: decides which checkpoint is best: give --step best too"},
      {{"prune", dir, "--keep", "1", "--metric", "loss", "--mode", "min"},
       "--metric: decides which checkpoint is best: give --best N too"},
      {{"show", step_path(300), "--step", "100"}, "already names a checkpoint"},
      {{"show", step_path(700)}, "is not a checkpoint"},
      {{"diff", dir}, "name a second checkpoint: --other-step S, or another directory"},
      {{"prune", dir}, "say what to keep: --keep N, --every N, --best N"},
      {{"prune", dir, "--keep", "0"}, "--keep: 0 is not a number of checkpoints: give 1 or more"},
      {{"prune", dir, "--keep", "-1"}, "--keep: -1 is not a number of checkpoints: give 1 or more"},
      {{"prune", dir, "--keep", "many"}, "--keep: many is not a number of checkpoints"},
      {{"prune", dir, "--best", "1"}, "give --metric NAME --mode min|max"},
      {{"prune", step_path(300), "--keep", "1"}, "name the whole directory"},
      {{"import", nothing, scratch / "text"}, "cannot use " + (scratch / "text")},
      {{"import", nothing, scratch / "missing"}, "cannot open " + (scratch / "missing")},
      {{"import", nothing, scratch / "empty"}, "has no tensors"},
      {{"import", nothing, scratch / "f99"}, "tensor a has the unknown type F99"},
      {{"import", nothing, nothing}, "cannot use " + nothing},
      {{"import", nothing, scratch / "text", "--step", "-1"}, "--step"},
  };
  for (const auto& [words, expected] : wrong) {
    const CkptSaid said = launch_ckpt(words);
    EXPECT_EQ(said.exit_code, 2) << fmt::format("{}", fmt::join(words, " "));
    EXPECT_THAT(said.err, HasSubstr(expected));
    EXPECT_EQ(std::ranges::count(said.err, '\n'), 1) << said.err;
    EXPECT_EQ(said.out, "");
  }
  EXPECT_TRUE(std::filesystem::is_empty(nothing)) << "a refused import has made nothing";
}

// The passage of docs/checkpoints.md, word for word.
TEST_F(LaunchCkpt, PythonConvertsToAndFromAStateDict) {
  const std::string file = scratch / "model.safetensors";
  ASSERT_EQ(launch_ckpt({"export", dir, file}).exit_code, 0);
  LaunchRun run(
      {CKPT_SCRIPT, CHECKPOINTS_DOCUMENT, step_path(300), file, scratch / "from_python.safetensors"}, {},
      TORCH_PYTHON);
  if (run.exit_code() == 77) GTEST_SKIP() << "torch and safetensors are not installed: " << run.out();
  ASSERT_EQ(run.exit_code(), 0) << run.out() << run.err();
  EXPECT_EQ(run.out(), "6 tensors are the same\n");
  const std::string imported = scratch / "imported";
  ASSERT_EQ(launch_ckpt({"import", imported, scratch / "from_python.safetensors"}).exit_code, 0);
  const auto same = launch_ckpt({"diff", imported, dir, "--json"}).json();
  for (const auto& [name, difference] : same["tensors"].items())
    EXPECT_THAT(name, Not(testing::StartsWith("model."))) << difference;
}

}  // namespace
}  // namespace muster
