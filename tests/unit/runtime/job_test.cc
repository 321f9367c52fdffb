// Everything that starts threads runs in a spawned process, so that each test can fork again.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <gmock/gmock.h>
#include <iterator>
#include <muster/muster.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "runtime/comm/job_state.h"
#include "runtime/comm/nccl/backend.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/uncaught.h"
#include "tests/fake_agent.h"
#include "tests/require.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void alone(const std::function<void()>& body) {
  spawn([&](Job&) { body(); }, 1);
}

void clear_world() {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                           "MASTER_PORT", "MUSTER_SOCKET"})
    unsetenv(name);
}

// The sum of all ranks' ranks, through the group of the job.
float sum_of_ranks(const Job& job) {
  std::vector<torch::Tensor> tensors{torch::full({1}, static_cast<float>(job.rank()))};
  job.process_group()->allreduce(tensors)->wait();
  return tensors.front().item<float>();
}

TEST(Job, IsAWorldOfOneWithoutALauncher) {
  alone([] {
    clear_world();
    const Job job = init();
    require_equal(job.world_size(), 1, "world size");
    require_equal(job.rank(), 0, "rank");
    require(job.device() == torch::kCPU || job.device().is_cuda(), "a device");
    require_equal(sum_of_ranks(job), 0.0F, "sum");
    job.barrier();
    job.store()->set("key", "value");
    require(job.store()->get_to_str("key") == "value", "the store keeps a value");
  });
}

TEST(Job, OutlivesAPeerThatClosedItsConnection) {
  alone([] {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "a connection");
    close(ends[1]);
    require(write(ends[0], "x", 1) == -1 && errno == EPIPE, "writing fails, and does not kill");
  });
}

TEST(Job, LeavesAloneWhatTheProgramDoesOnBrokenPipes) {
  alone([] {
    clear_world();
    const auto chosen = [](int) {};
    std::signal(SIGPIPE, chosen);
    const Job job = init();
    require(std::signal(SIGPIPE, SIG_DFL) == static_cast<void (*)(int)>(chosen),
            "the program's own handler stays");
  });
}

TEST(Job, PrintsWholeLinesAtOnce) {
  alone([] {
    clear_world();
    int ends[2];
    require(pipe2(ends, O_NONBLOCK) == 0 && dup2(ends[1], STDOUT_FILENO) >= 0, "a pipe for stdout");
    const Job job = init();
    char text[64] = {};
    while (read(ends[0], text, sizeof text) > 0) {  // before LibTorch 2.11 Gloo prints a line
    }
    std::ranges::fill(text, 0);
    std::printf("step 10\nstep");
    require_equal(read(ends[0], text, sizeof text), ssize_t{8}, "bytes without a flush");
    require_equal(std::string(text), std::string("step 10\n"), "what was printed");
  });
}

TEST(Job, RefusesABrokenEnvironment) {
  alone([] {
    clear_world();
    setenv("RANK", "abc", 1);
    try {
      init();
    } catch (const std::invalid_argument& error) {
      require_equal(std::string(error.what()).starts_with("muster::init: WORLD_SIZE is not set"), true,
                    error.what());
      return;
    }
    throw std::runtime_error("init() did not throw");
  });
}

TEST(Job, RefusesABackendThatThereIsNot) {
  alone([] {
    clear_world();
    for (const char* name : {"zeus", "nccl"}) {
      std::string refused;
      try {
        init({.backend = name});
      } catch (const std::invalid_argument& error) {
        refused = error.what();
      }
      require_equal(refused,
                    std::string(name) == "zeus"
                        ? std::string("muster::init: backend 'zeus' is not one of gloo, nccl, mpi, shm")
                        : std::string("backend 'nccl' needs GPUs, but this job trains on CPUs"),
                    name);
    }
    require_equal(init({.backend = "gloo"}).process_group()->getBackend(c10::kCPU)->getBackendName(),
                  std::string("gloo"), "backend");
  });
}

// A port that nobody else is given while this lives, and on which a store of ours may still listen: it is
// bound, and does not listen.
class ReservedPort {
 public:
  ReservedPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    require(fd_ && setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                bind(fd_.get(), generic, size) == 0 && getsockname(fd_.get(), generic, &size) == 0,
            "no port is left");
    port_ = std::to_string(ntohs(address.sin_port));
  }
  const std::string& port() const { return port_; }

 private:
  UniqueFd fd_;
  std::string port_;
};

// A store that outlives the ranks, as an agent's does.
c10::intrusive_ptr<c10d::Store> serve_store(const std::string& port) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(std::stoi(port));
  options.isServer = true;
  options.waitWorkers = false;
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

void set_world(const std::string& rank, const std::string& world_size, const std::string& port) {
  setenv("RANK", rank.c_str(), 1);
  setenv("WORLD_SIZE", world_size.c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", port.c_str(), 1);
}

TEST(Job, SaysHowManyRanksHaveCome) {
  const ReservedPort reserved;
  alone([&] {
    const auto store = serve_store(reserved.port());
    set_world("1", "3", reserved.port());
    try {
      init({.timeout = std::chrono::seconds(1)});
    } catch (const std::runtime_error& error) {
      require(error.what() == std::string("1 of 3 ranks have reached muster::init()"), error.what());
      return;
    }
    throw std::runtime_error("init() did not throw");
  });
}

TEST(Job, MeetsOverEnvironmentTcpFileAndAnAgentsStore) {
  ScratchDirectory scratch;
  for (const std::string method : {"env", "tcp", "file", "agent"}) {
    const ReservedPort reserved;
    spawn(
        [&](Job& outer) {
          clear_world();
          InitOptions options{.rank = outer.rank(), .world_size = 3, .timeout = std::chrono::seconds(60)};
          if (method == "tcp") options.init_method = "tcp://127.0.0.1:" + reserved.port();
          if (method == "file") options.init_method = "file://" + (scratch / "store");
          c10::intrusive_ptr<c10d::Store> store;
          if (method == "agent" && outer.rank() == 0) store = serve_store(reserved.port());
          if (method == "agent") setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
          if (method == "env" || method == "agent")
            set_world(std::to_string(outer.rank()), "3", reserved.port());
          const Job job = init(options);
          require_equal(job.rank(), outer.rank(), "rank");
          require_equal(job.local_rank(), outer.rank(), "local rank");
          require_equal(sum_of_ranks(job), 3.0F, "sum over " + method);
          outer.barrier();
        },
        3);
  }
}

TEST(Job, SaysWhichStoreItCannotReach) {
  const ReservedPort reserved;
  const std::string address = "127.0.0.1:" + reserved.port();
  alone([&] {
    try {
      init({.init_method = "tcp://" + address,
            .rank = 1,
            .world_size = 2,
            .timeout = std::chrono::milliseconds(300)});
    } catch (const std::runtime_error& error) {
      require(std::string(error.what()).starts_with("cannot reach the store at " + address), error.what());
      return;
    }
    throw std::runtime_error("init() did not throw");
  });
}

TEST(Job, SeesNoKeysOfAnEarlierAttempt) {
  ScratchDirectory scratch;
  alone([&] {
    World world;
    world.store = StoreKind::kFile;
    world.path = scratch / "store";
    world.attempt = 7;
    const Job first = join(world, std::nullopt, {}, std::nullopt);
    require_equal(first.attempt(), 7U, "attempt");
    first.store()->set("key", "old");
    world.attempt = 8;
    const Job second = join(world, std::nullopt, {}, std::nullopt);
    require(!second.store()->check({"key"}), "a new attempt starts without keys");
  });
}

TEST(Job, IsMadeOnceInAProcess) {
  alone([] {
    clear_world();
    setenv("RANK", "abc", 1);
    try {
      init();
    } catch (const std::invalid_argument&) {
      clear_world();  // one that failed may be tried again
    }
    {
      const Job job = init();
    }
    try {
      init();
    } catch (const std::logic_error& error) {
      require(std::string(error.what()).starts_with("muster::init: called a second time"), error.what());
      return;
    }
    throw std::runtime_error("a second init() did not throw");
  });
}

// A backend for a device that no real one has; counts how often it is shut down.
class CountingBackend : public c10d::Backend {
 public:
  explicit CountingBackend(int& count) : Backend(0, 1), count_(count) {}
  const std::string getBackendName() const override { return "counting"; }
  void shutdown() override { ++count_; }

 private:
  int& count_;
};

void count_shutdowns(const Job& job, int& count) {
  job.process_group()->setBackend(c10::kMeta, c10d::ProcessGroup::BackendType::CUSTOM,
                                  c10::make_intrusive<CountingBackend>(count));
}

TEST(Job, ShutsItsBackendsDownOnceWhenItsLastCopyGoes) {
  alone([] {
    int count = 0;
    std::optional<Job> job = join({}, std::nullopt, {}, std::nullopt);
    count_shutdowns(*job, count);
    const auto group = job->process_group();  // as a Reducer keeps it
    std::optional<Job> copy = job;
    job.reset();
    require_equal(count, 0, "while a copy is there");
    copy.reset();
    require_equal(count, 1, "when it goes");
  });
}

TEST(Job, DoesNotWaitForItsBackendsWhenAnExceptionEndsIt) {
  alone([] {
    int count = 0;
    try {
      const Job job = join({}, std::nullopt, {}, std::nullopt);
      count_shutdowns(job, count);
      throw std::out_of_range("no such sample");
    } catch (const std::out_of_range&) {
    }
    require_equal(count, 0, "an error is on its way");
  });
}

std::string in_words(const nlohmann::json& message) {
  return fmt::format("{} {} {}", message["type"].get<std::string>(), message["step"].get<int>(),
                     message["text"].get<std::string>());
}

TEST(Job, TellsItsAgentWhatItDoes) {
  const ScratchDirectory scratch;
  FakeAgent agent(scratch / "agent");
  alone([&] {
    clear_world();
    setenv("MUSTER_SOCKET", agent.path().c_str(), 1);
    setenv("MUSTER_ATTEMPT", "3", 1);
    const Job job = init();
    muster::step(5);
    committed(5);
    reports_of(job).send("fenced", 5, "attempt 4");
  });
  std::vector<std::string> seen;
  for (const nlohmann::json& message : agent.heard()) {
    EXPECT_EQ(message["attempt"], 3);
    if (message["type"] != "hello") seen.push_back(in_words(message));
  }
  EXPECT_THAT(seen, ::testing::ElementsAre("step 5 ", "committed 5 ", "fenced 5 attempt 4", "finished 5 "));
}

TEST(Job, MustBeThereBeforeItIsAskedAndTold) {
  EXPECT_THAT([] { muster::step(1); },
              ThrowsMessage<std::logic_error>("muster::step: no Job exists yet; call init() first"));
  EXPECT_THROW(committed(1), std::logic_error);
  EXPECT_THROW(resume_step(), std::logic_error);
  EXPECT_THROW(report("val_loss", 0.5, 1), std::logic_error);
  EXPECT_THROW(preemption_noticed(), std::logic_error);
}

TEST(Job, OfALoopOfItsOwnHearsOfStepsAndNotices) {
  const ScratchDirectory scratch;
  alone([&] {
    FakeAgent agent(scratch / "agent");
    clear_world();
    setenv("MUSTER_SOCKET", agent.path().c_str(), 1);
    setenv("MUSTER_RESUME_STEP", "40", 1);
    alarm(60);
    const Job job = init();
    require_equal(resume_step().value_or(-1), 40, "the step to resume from");
    require(!preemption_noticed(), "no notice has come");
    require(!preemption_noticed(), "asked again");
    const auto offers = [](const nlohmann::json& message) {
      return message["type"] == "hello" && message["text"].get<std::string>().ends_with("preemption");
    };
    while (!offers(agent.next("hello"))) continue;
    agent.order({{"v", 1}, {"type", "preempt"}, {"grace_ms", 1000}});
    while (!preemption_noticed()) std::this_thread::yield();
    require(std::ranges::none_of(agent.heard(), offers), "one offer");
    muster::report("val_loss", 0.25, 41);
    require(agent.next("metric")["values"] == nlohmann::json{{"val_loss", 0.25}}, "the value is reported");
  });
}

// All that it says until it ends; its socket is read meanwhile, as an agent does.
std::vector<nlohmann::json> heard_to_the_end(FakeAgent& agent, pid_t worker) {
  const UniqueFd handle(static_cast<int>(syscall(SYS_pidfd_open, worker, 0)));
  std::vector<nlohmann::json> all;
  pollfd sources[] = {{handle.get(), POLLIN, 0}, {agent.fd(), POLLIN, 0}};
  while (sources[0].revents == 0 && poll(sources, 2, -1) > 0)
    std::ranges::move(agent.heard(), std::back_inserter(all));
  std::ranges::move(agent.heard(), std::back_inserter(all));
  return all;
}

// Its destructor uses objects that were made after it; under a launcher they still exist then.
TEST(Job, InStaticStorageSpeaksWhenTheProcessEnds) {
  const ReservedPort reserved;
  const ScratchDirectory scratch;
  FakeAgent agent(scratch / "agent");
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    static const auto store = serve_store(reserved.port());
    set_world("0", "1", reserved.port());
    setenv("MUSTER_SOCKET", agent.path().c_str(), 1);
    static const Job job = init();
    muster::step(0);
    {
      const auto in = section("a section with a name too long to lie in a string itself");
    }
    muster::step(1);
    std::exit(0);
  }
  nlohmann::json profile, finished;  // the heart's hello may come before, between or after
  for (const nlohmann::json& message : heard_to_the_end(agent, child)) {
    if (message["type"] == "profile") profile = message;
    if (message["type"] == "finished") finished = message;
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ASSERT_TRUE(profile.is_object() && finished.is_object());
  EXPECT_EQ(finished["step"], 1);
  EXPECT_EQ(profile["steps"], 1);
  EXPECT_TRUE(profile["parts_ms"].contains("compute")) << profile;
}

TEST(Job, SeedsAllGenerators) {
  alone([] {
    seed_everything(5);
    const float first = torch::rand(1).item<float>();
    const int second = std::rand();
    seed_everything(5);
    require_equal(torch::rand(1).item<float>(), first, "torch's number");
    require_equal(std::rand(), second, "the C library's number");
  });
}

TEST(UncaughtException, IsPrintedAndLeftInTheErrorFile) {
  ScratchDirectory scratch;
  const std::string path = scratch / "error.json";
  try {
    alone([&] {
      clear_world();
      setenv("RANK", "0", 1);
      setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
      handle_uncaught_exceptions("0");
      std::thread([] { throw std::out_of_range("no such sample"); }).join();
    });
    FAIL() << "the process ended well";
  } catch (const SpawnError& error) {
    EXPECT_EQ(error.exit_code(), 1);
  }
  std::ifstream file(path);
  const auto content = nlohmann::json::parse(file);
  EXPECT_EQ(content["message"]["message"], "std::out_of_range: no such sample");
  EXPECT_EQ(content["message"]["extraInfo"]["py_callstack"], "");
  EXPECT_GT(std::stoll(content["message"]["extraInfo"]["timestamp"].get<std::string>()), 1'700'000'000);
}

// The error file and the output of a process of this age.
template <class Throw>
std::pair<nlohmann::json, std::string> left_by(Throw thrower, Duration age = {}) {
  ScratchDirectory scratch;
  const std::string path = scratch / "error.json";
  const std::string printed = scratch / "stderr";
  try {
    alone([&] {
      clear_world();
      setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
      handle_uncaught_exceptions("0", Clock::now() - age);
      require(freopen(printed.c_str(), "w", stderr) != nullptr, "stderr goes to a file");
      std::thread(thrower).join();
    });
  } catch (const SpawnError&) {
    return {nlohmann::json::parse(std::ifstream(path)), read_file(printed, 1 << 16).value()};
  }
  throw std::logic_error("the process ended well");
}

TEST(UncaughtException, OfWrongUseBeforeAStepIsFinal) {
  const auto final = [](auto thrower) { return left_by(thrower).first.contains("final"); };
  EXPECT_TRUE(final([] { throw std::invalid_argument("every = 0"); }));
  EXPECT_TRUE(final([] { throw std::logic_error("call restore()"); }));
  EXPECT_FALSE(final([] { throw std::runtime_error("no such file"); }));
  EXPECT_FALSE(final([] { throw std::out_of_range("no such sample"); })) << "the data may be repaired";
}

// Nor of a program that trains, whatever of it can be seen.
TEST(UncaughtException, OfWrongUseInTrainingIsNotFinal) {
  const auto in_training = [] { throw std::invalid_argument("stoi"); };
  EXPECT_TRUE(left_by(in_training, std::chrono::seconds(15)).first.contains("final"));
  EXPECT_FALSE(left_by(in_training, std::chrono::seconds(30)).first.contains("final"))
      << "it may have a loop of its own";
  const auto after_a_step = [] {
    step_time().step_ended(Clock::now());
    throw std::logic_error("between the first step and the second");
  };
  EXPECT_FALSE(left_by(after_a_step).first.contains("final"));
  const auto with_a_batch = [] {
    const TensorDataset<> dataset(at::zeros({4, 1}), at::zeros({4}));
    DataLoader loader(dataset, {}, 0, 1);
    for ([[maybe_unused]] auto& batch : loader.epochs(1)) throw std::logic_error("in the first step");
  };
  EXPECT_FALSE(left_by(with_a_batch).first.contains("final"));
}

struct OfAll : std::runtime_error, OnAllRanks {
  explicit OfAll(OnAllRanks nature) : runtime_error("it does not fit"), OnAllRanks(nature) {}
};

TEST(UncaughtException, OfAllRanksIsPrintedByOne) {
  const auto [file, printed] = left_by([] { throw OfAll({.final = true, .told = false}); });
  EXPECT_EQ(file["final"], true);
  EXPECT_THAT(printed, HasSubstr("rank 0: "));
  EXPECT_THAT(printed, HasSubstr("it does not fit\n"));
  const auto [other_file, nothing] = left_by([] { throw OfAll({.final = false, .told = true}); });
  EXPECT_FALSE(other_file.contains("final"));
  EXPECT_EQ(other_file["told"], true);
  EXPECT_THAT(other_file["message"]["message"].get<std::string>(), HasSubstr("it does not fit"));
  EXPECT_EQ(nothing, "");
}

// Ranks that fail alike name different batches and samples; the cause leaves these out.
TEST(UncaughtException, LeavesItsCauseWithoutWhatTheRuntimeAdded) {
  struct Unreadable : Dataset<at::Tensor> {
    std::int64_t size() const override { return 4; }
    at::Tensor get(std::int64_t) const override { throw std::range_error("no header"); }
  };
  const auto file = left_by([] {
                      const Unreadable dataset;
                      DataLoader loader(dataset, {}, 0, 1);
                      for ([[maybe_unused]] auto& batch : loader.epochs(1)) continue;
                    }).first;
  EXPECT_THAT(file["message"]["message"].get<std::string>(), HasSubstr("batch 0 (samples"));
  EXPECT_EQ(file["cause"], "std::range_error: no header");
  EXPECT_FALSE(left_by([] { throw std::range_error("no header"); }).first.contains("cause"));
}

TEST(UncaughtException, OfTorchIsDescribedWithoutItsStack) {
  std::string text;
  try {
    TORCH_CHECK(false, "shapes differ");
  } catch (...) {
    text = describe_current_exception();
  }
  EXPECT_EQ(text, "c10::Error: shapes differ");
}

TEST(UncaughtException, FileIsValidWhateverTheText) {
  const auto content = nlohmann::json::parse(error_file_content("quote \" line \n byte \xff", 12));
  EXPECT_EQ(content["message"]["extraInfo"]["timestamp"], "12");
  EXPECT_THAT(content["message"]["message"].get<std::string>(), HasSubstr("quote \" line \n byte"));
}

TEST(Gpu, IsVisibleOnlyWithADriverAndADevice) {
  EXPECT_TRUE(gpu_visible(true, nullptr));
  EXPECT_TRUE(gpu_visible(true, "0,1"));
  EXPECT_FALSE(gpu_visible(true, ""));
  EXPECT_FALSE(gpu_visible(true, "-1"));
  EXPECT_FALSE(gpu_visible(false, nullptr));
}

TEST(Gpu, OfABuildWithoutCudaOrWithoutItsLibrariesIsAnError) {
  EXPECT_THAT(load_nccl(true, nullptr).error, HasSubstr("built with a LibTorch without CUDA"));
  EXPECT_THAT(load_nccl(true, "libmuster_nothing.so").error, HasSubstr("its libraries cannot be loaded: "));
  EXPECT_EQ(load_nccl(false, nullptr).error, "");
  EXPECT_EQ(load_nccl(false, "libmuster_nothing.so").error, "");
}

TEST(LoadedTorch, FitsWhereMajorAndMinorVersionAreTheSame) {
  const auto version = [](std::uint64_t major, std::uint64_t minor, std::uint64_t patch) {
    return major << 56 | minor << 48 | patch << 40;
  };
  EXPECT_TRUE(fit({.built = version(2, 12, 0), .other = version(2, 12, 1)}));
  EXPECT_FALSE(fit({.built = version(2, 12, 0), .other = version(2, 13, 0)}));
  EXPECT_FALSE(fit({.built = version(2, 12, 0), .other = version(3, 12, 0)}));
  EXPECT_EQ(text_of_torch(version(2, 12, 1)), "2.12.1");
}

TEST(LoadedTorch, AModuleThatWasBuiltWithAnotherOneIsRefused) {
  const Module other = load_module(MUSTER_OTHER_TORCH);
  EXPECT_EQ(other.handle, nullptr);
  EXPECT_THAT(other.error,
              HasSubstr("libother_torch.so was built with LibTorch 2.99.0, but this program with 2."));
  EXPECT_THAT(load_module("libz.so.1").error, HasSubstr("belongs to another version of Muster"));
}

#ifdef MUSTER_NCCL
// Without a GPU this much can be shown: the library and CUDA's load, and its function is there.
TEST(Gpu, LibraryOfNcclLoadsWhereThereIsNone) {
  alone([] {
    void* library = dlopen("libmuster_nccl.so", RTLD_NOW | RTLD_GLOBAL);
    require(library != nullptr, library == nullptr ? dlerror() : "");
    require(dlsym(library, kNcclFunction) != nullptr, "it has muster_make_nccl");
    std::ifstream maps("/proc/self/maps");
    std::set<std::string> copies;
    for (std::string line; std::getline(maps, line);)
      if (line.find("/libnccl.so") != std::string::npos) copies.insert(line.substr(line.find('/')));
    require(copies.size() <= 1, "at most one NCCL in the process");
  });
}
#endif

}  // namespace
}  // namespace muster
