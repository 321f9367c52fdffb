// The content of a checkpoint, and refusals, in one process without crashes.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <thread>

#include "common/checkpoint/directory.h"
#include "runtime/checkpoint/rank_file.h"
#include "runtime/rank/uncaught.h"
#include "tests/fake_agent.h"
#include "tests/train/checkpoint_fixture.h"
#include "tests/warnings.h"
#include "tests/written_checkpoint.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST_F(CheckpointTest, EveryOptimizerGoesOnExactly) {
  const std::vector<MakeOptimizer> kinds{
      [](auto p) { return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(0.1)); },
      [](auto p) {
        return std::make_unique<torch::optim::SGD>(
            p, torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true));
      },
      make_adam,
      [](auto p) { return std::make_unique<torch::optim::AdamW>(p, torch::optim::AdamWOptions(1e-2)); },
      [](auto p) {
        return std::make_unique<torch::optim::RMSprop>(
            p, torch::optim::RMSpropOptions(1e-3).momentum(0.5).centered(true));
      },
      [](auto p) {
        return std::make_unique<torch::optim::Adagrad>(p, torch::optim::AdagradOptions(1e-2).lr_decay(0.1));
      },
  };
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    SCOPED_TRACE(kind);
    const std::string directory = scratch_ / std::to_string(kind);
    Training undisturbed(directory, kinds[kind]);
    undisturbed.train(3);
    undisturbed.optimizer->param_groups()[0].options().set_lr(0.0123);
    ASSERT_TRUE(undisturbed.checkpoints.save(undisturbed.state));
    const at::Tensor generator = at::detail::getDefaultCPUGenerator().get_state();
    undisturbed.train(10);
    torch::manual_seed(99);  // restore() must put it back
    Training resumed(directory, kinds[kind]);
    ASSERT_EQ(resumed.checkpoints.restore(resumed.state), 3);
    EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(generator));
    EXPECT_EQ(resumed.optimizer->param_groups()[0].options().get_lr(), 0.0123);
    resumed.train(10);
    EXPECT_EQ(resumed.checkpoints.steps(), 13);
    EXPECT_EQ(resumed.result(), undisturbed.result());
  }
}

TEST_F(CheckpointTest, StartsFreshInAnEmptyDirectoryAndAfterAttemptsWithoutACommit) {
  EXPECT_EQ(restored_step(directory_), 0);
  EXPECT_EQ(restored_step(directory_), 0);
}

TEST_F(CheckpointTest, RefusesToStartFreshIfCheckpointsCannotBeUsed) {
  save_two();
  for (const char* step : {"1", "2"})
    fs::resize_file(directory_ + "/step-" + step + ".attempt-1/rank-00000.safetensors", 100);
  Training training(directory_);
  const std::string before = bytes_of(*training.net);
  EXPECT_THAT([&] { training.checkpoints.restore(training.state); },
              ThrowsMessage<std::runtime_error>(
                  AllOf(HasSubstr(directory_), HasSubstr("step 2 of attempt 1 ("),
                        HasSubstr("step 1 of attempt 1 ("), HasSubstr("it has 100 bytes"))));
  EXPECT_EQ(bytes_of(*training.net), before);
}

TEST_F(CheckpointTest, RefusesCheckpointsWhoseAttemptFileIsGone) {
  save_two();
  fs::remove(directory_ + "/attempts/000001.json");
  EXPECT_THROW(restored_step(directory_), std::runtime_error);
}

TEST_F(CheckpointTest, ACheckpointOfAnotherProgramIsRefusedWithTheReasonAndChangesNothing) {
  save_two();
  Training training(directory_, [](auto p) {
    return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(0.1));
  });
  const std::string before = bytes_of(*training.net);
  EXPECT_THAT([&] { training.checkpoints.restore(training.state); },
              ThrowsMessage<std::runtime_error>(
                  AllOf(HasSubstr("the optimizer's kind is Adam, not SGD"),
                        HasSubstr("go on with the program and the options that saved them, or name"))));
  EXPECT_EQ(bytes_of(*training.net), before);
}

// A network whose check of the bucket order throws.
template <class Exception>
struct UnfitNet : SmallNet {
  BucketOrder bucket_order() const { return {}; }
  void check_bucket_order(const BucketOrder& /*order*/) const { throw Exception("the check fails"); }
  void set_bucket_order(const BucketOrder& /*order*/) {}
};

template <class Exception>
bool is_final(const std::string& directory) {
  const Job job = make_job();
  UnfitNet<Exception> net;
  torch::optim::Adam optimizer(net.parameters(), torch::optim::AdamOptions(1e-2).amsgrad(true));
  const NoiseDataset dataset(64);
  DataLoader<Example> loader{dataset, {.batch_size = 8, .shuffle = true}, 0, 1};
  TrainState state(net, optimizer, loader);
  Checkpointer checkpoints(job, in(directory, {}));
  checkpoints.step(state);
  if (!checkpoints.save(state)) throw std::runtime_error("the save failed");
  try {
    checkpoints.restore(state);
  } catch (const OnAllRanks& nature) {
    return nature.final;
  }
  throw std::runtime_error("the restore succeeded");
}

TEST_F(CheckpointTest, OnlyACheckpointThatDoesNotFitIsFinal) {
  EXPECT_TRUE(is_final<std::invalid_argument>(scratch_ / "misfit"));
  EXPECT_FALSE(is_final<std::runtime_error>(scratch_ / "other"));
  EXPECT_FALSE(is_final<std::logic_error>(scratch_ / "another"));
}

TEST_F(CheckpointTest, ALoaderThatCannotSaveItsPlaceIsRefusedBeforeTheFirstStep) {
  Training training(directory_);
  DataLoader<Example> loader{training.dataset, {.num_workers = 1, .in_order = false}, 0, 1};
  EXPECT_THAT([&] { const TrainState state(*training.net, *training.optimizer, loader); },
              ThrowsMessage<std::logic_error>(HasSubstr("in_order = false")));
}

TEST_F(CheckpointTest, AnOwnerThatLostTheDirectoryIsToldWhichJobTookIt) {
  Training older(directory_);
  older.train(1);
  ASSERT_TRUE(older.checkpoints.save(older.state));
  Training newer(directory_);
  ASSERT_EQ(newer.checkpoints.restore(newer.state), 1);
  older.train(1);
  EXPECT_THAT([&] { older.checkpoints.save(older.state); },
              ThrowsMessage<FencedError>(HasSubstr("attempt 2 of job '' on host")));
  EXPECT_THROW(older.checkpoints.wait(), FencedError) << "the error stays";
  newer.train(1);
  EXPECT_TRUE(newer.checkpoints.save(newer.state));
  EXPECT_EQ(restored_step(directory_), 2);
  EXPECT_FALSE(fs::exists(directory_ + "/step-2.attempt-1/manifest.json"));
}

TEST_F(CheckpointTest, StepsWithoutAPossibleRestoreAreRefusedBeforeLosingAnything) {
  save_two();
  Training forgetful(directory_);
  const auto refusal =
      ThrowsMessage<std::logic_error>(AllOf(HasSubstr(directory_ + " has a checkpoint of step 2"),
                                            HasSubstr("call restore()"), HasSubstr(".start_over = true")));
  EXPECT_THAT([&] { forgetful.checkpoints.step(forgetful.state); }, refusal);
  EXPECT_THAT([&] { forgetful.checkpoints.save(forgetful.state); }, refusal);
  EXPECT_EQ(forgetful.checkpoints.steps(), 0);
  EXPECT_EQ(restored_step(directory_), 2);
}

TEST_F(CheckpointTest, AReaderRestoresWhileATrainingContinues) {
  Training writer(directory_);
  writer.train(2);
  ASSERT_TRUE(writer.checkpoints.save(writer.state));
  Training reader(directory_, make_adam, {.read_only = true});
  EXPECT_EQ(reader.checkpoints.restore(reader.state), 2);
  EXPECT_EQ(reader.result(), writer.result());
  EXPECT_THAT([&] { reader.checkpoints.save(reader.state); },
              ThrowsMessage<std::logic_error>(HasSubstr("read_only")));
  writer.train(1);
  EXPECT_TRUE(writer.checkpoints.save(writer.state)) << "the writer still owns the directory";
  EXPECT_EQ(reader.checkpoints.restore(reader.state), 3);
  EXPECT_FALSE(fs::exists(directory_ + "/attempts/000002.claim"));
  Training nowhere(scratch_ / "nowhere", make_adam, {.read_only = true});
  EXPECT_EQ(nowhere.checkpoints.restore(nowhere.state), 0);
  EXPECT_FALSE(fs::exists(scratch_ / "nowhere"));
}

// While the reader looks at the checkpoints that it found, the writer commits two more, and the found ones
// are removed.
TEST_F(CheckpointTest, AReaderFindsTheNewCheckpointsIfTheFoundOnesAreRemoved) {
  struct Interrupted : Sampler {
    std::int64_t size() const override { return order.size(); }
    std::vector<std::int64_t> indices(std::int64_t epoch) const override {
      if (interrupt) std::exchange(interrupt, nullptr)();
      return order.indices(epoch);
    }
    std::string description() const override { return order.description(); }
    RandomSampler order{64};
    mutable std::function<void()> interrupt;
  };
  Training writer(directory_, make_adam, {.keep = 2});
  const auto save = [&writer] {
    writer.train(1);
    ASSERT_TRUE(writer.checkpoints.save(writer.state));
  };
  save();
  save();
  const auto order = std::make_shared<Interrupted>();
  order->interrupt = [&] {
    save();
    save();
    throw std::runtime_error("the reader should have moved on");
  };
  Training reader(directory_, make_adam, {.read_only = true});
  DataLoader<Example> loader(reader.dataset, {.batch_size = 8, .sampler = order}, 0, 1);
  TrainState state(*reader.net, *reader.optimizer, loader);
  EXPECT_EQ(reader.checkpoints.restore(state), 4);
  EXPECT_EQ(bytes_of(*reader.net), bytes_of(*writer.net));
}

// A long evaluation is not a hang of the training, and its step is not the training's progress.
TEST_F(CheckpointTest, AReaderReportsNoStepToTheAgent) {
  save_two();
  FakeAgent agent(scratch_ / "agent");
  setenv("MUSTER_SOCKET", agent.path().c_str(), 1);
  {
    Training reader(directory_, make_adam, {.read_only = true});
    EXPECT_EQ(reader.checkpoints.restore(reader.state), 2);
  }
  unsetenv("MUSTER_SOCKET");
  std::vector<std::string> types;
  for (const nlohmann::json& message : agent.heard()) types.push_back(message["type"]);
  EXPECT_THAT(types, testing::Contains("finished"));
  for (const char* type : {"resumed", "step", "idle"})
    EXPECT_THAT(types, testing::Not(testing::Contains(type)));
}

TEST_F(CheckpointTest, ReportsUnusableCheckpointsWithAnyBytesInTheName) {
  const std::string directory = scratch_ / "named \xff";
  {
    Training training(directory);
    ASSERT_TRUE(training.checkpoints.save(training.state));
  }
  write_bytes(directory + "/step-0.attempt-1/rank-00000.safetensors", "torn");
  Training training(directory);
  EXPECT_THAT([&] { training.checkpoints.restore(training.state); },
              ThrowsMessage<std::runtime_error>(HasSubstr("has checkpoints and none can be used")));
}

TEST_F(CheckpointTest, StartsOverIfAsked) {
  save_two();
  {
    Training fresh(directory_, make_adam, {.start_over = true});
    EXPECT_EQ(fresh.checkpoints.restore(fresh.state), 0);
    fresh.train(1);
    ASSERT_TRUE(fresh.checkpoints.save(fresh.state));
    EXPECT_EQ(fresh.checkpoints.restore(fresh.state), 1) << "it finds its own checkpoints";
  }
  EXPECT_EQ(restored_step(directory_), 1);
  EXPECT_THAT([&] { Training(directory_, make_adam, {.read_only = true, .start_over = true}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("exclude each other")));
}

// Restarts of one job: attempts from 2 on. The first one dies before it commits.
TEST_F(CheckpointTest, ARestartAfterStartingOverContinuesFromItsOwnCheckpoints) {
  save_two();
  setenv("MUSTER_CHECKPOINT_DIR", directory_.c_str(), 1);
  setenv("MUSTER_JOB_ID", "launched", 1);
  std::vector<std::int64_t> restored;
  for (const char* restarts : {"0", "1", "2"}) {
    const auto begun = CheckpointDirectory(directory_).begin_attempt("launched");
    setenv("MUSTER_ATTEMPT", std::to_string(begun.value().attempt.value()).c_str(), 1);
    setenv("TORCHELASTIC_RESTART_COUNT", restarts, 1);
    Training training(directory_, make_adam, {.start_over = true});
    restored.push_back(training.checkpoints.restore(training.state));
    training.train(1);
    if (restored.size() > 1) EXPECT_TRUE(training.checkpoints.save(training.state));
  }
  for (const char* name :
       {"MUSTER_CHECKPOINT_DIR", "MUSTER_JOB_ID", "MUSTER_ATTEMPT", "TORCHELASTIC_RESTART_COUNT"})
    unsetenv(name);
  EXPECT_THAT(restored, testing::ElementsAre(0, 0, 1));
}

TEST_F(CheckpointTest, UnderALauncherItWritesInTheLaunchersAttempt) {
  ASSERT_EQ(CheckpointDirectory(directory_).begin_attempt("launched").value().attempt, Attempt(1));
  setenv("MUSTER_CHECKPOINT_DIR", directory_.c_str(), 1);
  setenv("MUSTER_ATTEMPT", "1", 1);
  Training launched(directory_);
  launched.train(1);
  EXPECT_TRUE(launched.checkpoints.save(launched.state));
  ASSERT_EQ(CheckpointDirectory(directory_).begin_attempt("next").value().attempt, Attempt(2));
  EXPECT_THAT([&] { launched.checkpoints.restore(launched.state); },
              ThrowsMessage<FencedError>(HasSubstr("attempt 2 of job 'next'")));
  Training elsewhere(scratch_ / "elsewhere");
  unsetenv("MUSTER_CHECKPOINT_DIR");
  unsetenv("MUSTER_ATTEMPT");
  EXPECT_TRUE(fs::exists(directory_ + "/step-1.attempt-1/manifest.json"));
  EXPECT_FALSE(fs::exists(directory_ + "/attempts/000003.json"));
  EXPECT_TRUE(fs::exists(scratch_ / "elsewhere/attempts/000001.json"));
}

TEST_F(CheckpointTest, KeepsTheNewestAndForeignFiles) {
  fs::create_directories(directory_ + "/step-1.attempt-77");
  write_bytes(directory_ + "/notes.txt", "mine");
  {
    Training training(directory_, make_adam, {.keep = 2});
    for (int step = 0; step < 5; ++step) {
      training.train(1);
      ASSERT_TRUE(training.checkpoints.save(training.state));
    }
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory_)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("attempts", "index.json", "notes.txt", "step-1.attempt-77",
                                                   "step-4.attempt-78", "step-5.attempt-78"));
}

TEST_F(CheckpointTest, SavesTheStateBeforeTheFirstStep) {
  Training training(directory_);
  EXPECT_TRUE(training.checkpoints.save(training.state));
  EXPECT_TRUE(fs::exists(directory_ + "/step-0.attempt-1/manifest.json"));
}

TEST_F(CheckpointTest, ACommittedCheckpointIsNotWrittenOver) {
  Training training(directory_);
  training.train(1);
  ASSERT_TRUE(training.checkpoints.save(training.state));
  const std::string shard = directory_ + "/step-1.attempt-1/rank-00000.safetensors";
  const std::string before = read_bytes(shard);
  ASSERT_EQ(training.checkpoints.restore(training.state), 1);
  training.train(1);
  ASSERT_TRUE(training.checkpoints.save(training.state));
  fs::remove_all(directory_ + "/step-2.attempt-1");
  ASSERT_EQ(training.checkpoints.restore(training.state), 1);
  fs::copy(directory_ + "/step-1.attempt-1", directory_ + "/step-2.attempt-1");
  training.train(1);
  EXPECT_FALSE(training.checkpoints.save(training.state));
  EXPECT_EQ(read_bytes(directory_ + "/step-2.attempt-1/rank-00000.safetensors"), before);
}

TEST_F(CheckpointTest, NonFiniteParametersAreNotCommittedWhichIsSaidOnce) {
  const Warnings warnings;
  Training training(directory_, make_adam, {.keep = 1});
  training.train(1);
  ASSERT_TRUE(training.checkpoints.save(training.state));
  const at::Tensor good = training.net->linear2->weight.detach().clone();
  const auto spoil = [&](float value) {
    const torch::NoGradGuard no_grad;
    training.net->linear2->weight[3][5] = value;
  };
  for (const float value : {NAN, -INFINITY, NAN}) {
    training.checkpoints.step(training.state);
    spoil(value);
    EXPECT_FALSE(training.checkpoints.save(training.state));
  }
  EXPECT_THAT(warnings.lines(),
              testing::ElementsAre(AllOf(HasSubstr("the checkpoint of step 2 is not committed: rank 0: "
                                                   "model.linear2.weight has a NaN or an infinity"),
                                         HasSubstr("the newest one is that of step 1"))));
  EXPECT_FALSE(fs::exists(directory_ + "/step-4.attempt-1"));
  EXPECT_FALSE(training.checkpoints.save(training.state)) << "a second time at the same step";
  {
    const torch::NoGradGuard no_grad;
    training.net->linear2->weight.copy_(good);
  }
  EXPECT_TRUE(training.checkpoints.save(training.state));
  spoil(NAN);
  training.checkpoints.step(training.state);
  EXPECT_FALSE(training.checkpoints.save(training.state));
  EXPECT_EQ(warnings.lines().size(), 2U) << "anew";
  EXPECT_EQ(restored_step(directory_), 4);
}

TEST_F(CheckpointTest, ARankThatIsAskedToLeaveAndMayNotSaveEndsAtOnce) {
  FakeAgent agent(scratch_ / "agent");
  setenv("MUSTER_SOCKET", agent.path().c_str(), 1);
  Training training(directory_);
  unsetenv("MUSTER_SOCKET");
  training.train(1);
  ASSERT_TRUE(training.checkpoints.save(training.state));
  torch::nn::init::constant_(training.net->linear2->bias, NAN);
  agent.next("hello");
  agent.order({{"v", 1}, {"type", "preempt"}, {"grace_ms", 600'000}});
  while (!reports_of(training.job).preemption_noticed()) std::this_thread::yield();
  const auto train_on = [&] {
    for (int step = 0; step < 10; ++step) training.checkpoints.step(training.state);
  };
  EXPECT_THAT(train_on,
              ThrowsMessage<std::runtime_error>(HasSubstr("asked to leave, and nothing can be saved: rank 0: "
                                                          "model.linear2.bias has a NaN or an infinity")));
  EXPECT_EQ(restored_step(directory_), 1);
}

TEST_F(CheckpointTest, CommitsNonFiniteParametersIfAllowed) {
  Training training(directory_, make_adam, {.check_finite = false});
  training.train(1);
  torch::nn::init::constant_(training.net->linear2->bias, NAN);
  EXPECT_TRUE(training.checkpoints.save(training.state));
}

using TensorMap = std::map<std::string, at::Tensor>;

Status check_written(const TensorMap& tensors, const std::set<std::string>& finite) {
  SavedState state;
  SaveAgreement::Share share;
  for (const auto& [name, tensor] : tensors) {
    state.shared(name, tensor, finite.contains(name));
    share.tensors.insert(name);
  }
  RankFile file = lay_out_rank_file(state, share, 0).value();
  Staging staging(file.layout.size_bytes);
  EXPECT_TRUE(staging.reserve(file.layout.size_bytes));
  staging.begin(file.layout.size_bytes, /*ranks=*/1);
  stage_rank_file(file.source, staging);
  return check_all_finite(file.layout, 0, staging.wait_for_chunk(0));
}

TEST(CheckAllFinite, FindsNaNAndInfinityOfEveryTypeInNamedTensorsOnly) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat}) {
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, -HUGE_VAL}) {
      TensorMap shard;
      const double largest = type == at::kHalf ? 65504 : type == at::kBFloat16 ? 3.3e38 : 3.4e38;
      shard["a"] = at::full({1000}, -largest, type);
      shard["b"] = at::full({1000}, 1.0, type);
      EXPECT_TRUE(check_written(shard, {"a", "b"})) << type;
      shard["b"][777] = value;
      EXPECT_TRUE(check_written(shard, {"a", "c"})) << type;
      const Status checked = check_written(shard, {"a", "b"});
      ASSERT_FALSE(checked) << type << ' ' << value;
      EXPECT_EQ(checked.error().code(), ErrorCode::kCorrupt);
      EXPECT_EQ(checked.error().message(), "b has a NaN or an infinity (.check_finite = false allows it)");
    }
  }
}

TEST(CheckFinite, EndsALoopThatTrainsOnNaN) {
  check_finite(torch::tensor({1.0F, -3e38F}));
  check_finite(torch::tensor({1, 2}));
  check_finite(0.5);
  const auto says = [](const std::string& text) { return ThrowsMessage<std::runtime_error>(text); };
  EXPECT_THAT([] { check_finite(torch::tensor(NAN, torch::requires_grad())); }, says("the loss is nan"));
  EXPECT_THAT([] { check_finite(-INFINITY, "the reward"); }, says("the reward is -inf"));
  EXPECT_THAT([] { check_finite(torch::tensor({NAN, 1.0F, INFINITY})); },
              says("2 of 3 values of the loss are not finite"));
  const NoiseDataset dataset(4);
  DataLoader loader(dataset, {.batch_size = 2}, 0, 1);
  const auto loop = [&] {
    for (auto& batch : loader) check_finite(batch.target.to(at::kFloat).log().mean());
  };
  EXPECT_THAT(loop, ThrowsMessage<std::runtime_error>(
                        HasSubstr("the loss is -inf (in training with the dataset, epoch 0, batch 0")));
}

TEST_F(CheckpointTest, SavesEveryNStepsWhileTrainingContinues) {
  Job job = make_job();
  Training training(directory_);
  Checkpointer every_two(job, {.every = 2, .directory = scratch_ / "two", .keep = 100});
  for (auto& batch : training.loader.epochs(1)) {
    train_one(*training.net, *training.optimizer, batch);
    every_two.step(training.state);
  }
  ASSERT_TRUE(every_two.wait());
  for (const int step : {2, 4, 6, 8}) {
    EXPECT_TRUE(fs::exists(scratch_ / fmt::format("two/step-{}.attempt-1/manifest.json", step))) << step;
  }
  EXPECT_FALSE(fs::exists(scratch_ / "two/step-3.attempt-1"));
}

TEST_F(CheckpointTest, AModelIsLoadedWithoutAJob) {
  std::vector<std::string> saved;
  Training training(directory_);
  for (int step = 1; step <= 3; ++step) {
    training.train(1);
    ASSERT_TRUE(training.checkpoints.save(training.state));
    saved.push_back(bytes_of(*training.net));
  }
  SmallNet net;
  EXPECT_EQ(load_model(net, directory_).step, 3);
  EXPECT_EQ(bytes_of(net), saved[2]);
  EXPECT_EQ(load_model(net, directory_, {.step = 1, .device = at::kCPU}).step, 1);
  EXPECT_EQ(bytes_of(net), saved[0]);
  const auto pointer = std::make_shared<SmallNet>();
  load_model(pointer, directory_, {.step = 2});
  EXPECT_EQ(bytes_of(*pointer), saved[1]);
  fs::resize_file(directory_ + "/step-3.attempt-1/rank-00000.safetensors", 100);
  EXPECT_EQ(load_model(net, directory_).step, 2) << "the newest is torn";
  EXPECT_THAT([&] { load_model(net, directory_, {.step = 3}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("it has 100 bytes")));
  training.train(1);
  EXPECT_TRUE(training.checkpoints.save(training.state)) << "the writer still owns the directory";
  EXPECT_THAT([&] { load_model(net, directory_, {.step = 7}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("has no checkpoint of step 7, but of 4, 3, 2, 1")));
  EXPECT_THAT(
      [&] { load_model(net, scratch_ / "nowhere"); },
      ThrowsMessage<std::runtime_error>(HasSubstr("nowhere: there is no checkpoint directory and no file")));
  fs::create_directory(scratch_ / "empty");
  EXPECT_THAT([&] { load_model(net, scratch_ / "empty"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("there is no checkpoint in")));
  torch::save(net.parameters(), scratch_ / "weights.pt");
  EXPECT_THAT([&] { load_model(net, scratch_ / "weights.pt"); },
              ThrowsMessage<std::runtime_error>(
                  HasSubstr("it is a ZIP archive, as np.savez() and torch.save() write")));
}

TEST_F(CheckpointTest, LoadsADifferentModelInPartOnlyIfAllowed) {
  save_two();
  struct Other : SmallNet {
    explicit Other(std::int64_t classes) {
      linear4 = replace_module("linear4", torch::nn::Linear(29, classes));
      unregister_module("norm");
      head = register_module("head", torch::nn::Linear(5, 2));
    }
    torch::nn::Linear head{nullptr};
  };
  Other wider(7);
  const std::string before = bytes_of(wider);
  for (const bool strict : {true, false})
    EXPECT_THAT([&] { load_model(wider, directory_, {.strict = strict}); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("linear4.weight [5, 29] for [7, 29]")));
  Other other(5);
  const std::string head = bytes_of(*other.head);
  EXPECT_THAT([&] { load_model(other, directory_); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("it lacks: head.bias, head.weight"),
                                                         HasSubstr("the module lacks: norm.bias, "))));
  EXPECT_EQ(bytes_of(wider), before);
  const LoadedModel loaded = load_model(other, directory_, {.strict = false});
  EXPECT_THAT(loaded.missing, testing::ElementsAre("head.bias", "head.weight"));
  EXPECT_EQ(loaded.unexpected.size(), 5U);
  EXPECT_EQ(bytes_of(*other.head), head);
  SmallNet whole;
  load_model(whole, directory_);
  EXPECT_EQ(bytes_of(*other.linear4), bytes_of(*whole.linear4));
}

TEST_F(CheckpointTest, RefusesATypeThatTorchLacksByName) {
  const CheckpointDirectory directory(directory_);
  const Attempt first = directory.begin_attempt("job").value().attempt;
  write_checkpoint(directory, {.step = 1, .attempt = first},
                   {.tensors = {{"model.weight", written_tensor(Dtype::kF4, {2, 2}, 1)}}});
  struct Quantized : torch::nn::Module {
    Quantized() { register_parameter("weight", at::zeros({2, 2})); }
  } net;
  EXPECT_THAT([&] { load_model(net, directory_); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("of a type that torch does not have: weight")));
}

TEST_F(CheckpointTest, ADirectoryThatCannotBeUsedIsNamed) {
  write_bytes(scratch_ / "file", "");
  EXPECT_THAT(
      [&] { Training(scratch_ / "file"); },
      ThrowsMessage<std::runtime_error>(HasSubstr("cannot use checkpoint directory " + (scratch_ / "file"))));
}

}  // namespace
}  // namespace muster
