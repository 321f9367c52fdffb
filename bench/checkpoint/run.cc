// The ranks of the benchmark of checkpoints: saves and restores with Muster, and memcpy, raw direct writes
// and raw direct reads of the same bytes. Writes rank 0's measurements as JSON. With --memory, under launch
// --memory-tier: saves to the agent's memory, and restores from there.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <muster/muster.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <sys/mman.h>
#include <thread>
#include <torch/torch.h>
#include <unistd.h>

#include "bench/measure.h"
#include "common/base/check.h"
#include "common/base/file.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

struct Plan {
  std::string directory;
  std::int64_t mib = 2048;
  int ranks = 2;
  int rounds = 5;
  bool memory = false;
};

constexpr std::size_t kBlock = 4 << 20;

struct Net : torch::nn::Module {
  explicit Net(std::int64_t mib) {
    constexpr std::int64_t kTensors = 64;
    for (std::int64_t i = 0; i < kTensors; ++i)
      register_parameter(fmt::format("weight{}", i),
                         at::full({mib * (1 << 18) / kTensors / 1024, 1024}, 0.5));
  }
};

struct Nothing : Dataset<> {
  std::int64_t size() const override { return 1; }
  Example get(std::int64_t) const override { return {.data = at::zeros({1}), .target = at::zeros({})}; }
};

double seconds_since(std::int64_t begin_ns) {
  return static_cast<double>(now_ns() - begin_ns) * 1e-9;
}

// The time of the slowest rank.
template <class Work>
double together(Job& job, Work work) {
  job.barrier();
  const std::int64_t begin = now_ns();
  work();
  return all_reduce(job, seconds_since(begin), ReduceOp::kMax);
}

struct Memory {
  explicit Memory(std::size_t size_bytes)
      : bytes(static_cast<char*>(
            mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        size(size_bytes) {
    CHECK(bytes != MAP_FAILED);
    madvise(bytes, size, MADV_HUGEPAGE);
    std::memset(bytes, 1, size);
  }
  ~Memory() { munmap(bytes, size); }
  Memory(const Memory&) = delete;
  char* bytes;
  std::size_t size;
};

// Removes these files from the page cache.
void drop_caches(const std::string& directory) {
  sync();
  std::ofstream("/proc/sys/vm/drop_caches") << "1";
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const UniqueFd fd(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

void write_raw(const std::string& path, const Memory& memory) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0644));
  CHECK(fd.get() >= 0 && fallocate(fd.get(), 0, 0, static_cast<off_t>(memory.size)) == 0);
  for (std::size_t at = 0; at < memory.size; at += kBlock)
    CHECK(pwrite(fd.get(), memory.bytes + at, kBlock, static_cast<off_t>(at)) ==
          static_cast<ssize_t>(kBlock));
  CHECK(fsync(fd.get()) == 0);
}

void read_raw(const std::string& path, const Memory& memory) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  for (std::size_t at = 0; at < memory.size; at += kBlock)
    CHECK(pread(fd.get(), memory.bytes + at, kBlock, static_cast<off_t>(at)) == static_cast<ssize_t>(kBlock));
}

std::int64_t status_kib(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name)) return std::atoll(line.c_str() + name.size() + 1);
  return 0;
}

// Arithmetic within the processor's caches; takes about 20 ms.
double compute_step() {
  static const at::Tensor left = at::rand({256, 256});
  static at::Tensor sum = at::zeros({256, 256});
  const std::int64_t begin = now_ns();
  for (int i = 0; i < 40; ++i) sum.addmm_(left, left, 0.1, 0.1);
  return seconds_since(begin);
}

class Bench {
 public:
  Bench(Job& job, const Plan& plan)
      : job_(job),
        plan_(plan),
        net_(plan.mib),
        share_(static_cast<std::size_t>(plan.mib << 20) / static_cast<std::size_t>(plan.ranks) / kBlock *
               kBlock) {}

  nlohmann::json run() {
    if (plan_.memory) {
      in_memory();
      return result_;
    }
    saves();
    restores();
    fs::remove(raw_path());
    return result_;
  }

 private:
  std::string raw_path() const { return fmt::format("{}/raw-{}", plan_.directory, job_.rank()); }
  std::string checkpoints() const { return plan_.directory + "/checkpoints"; }

  // Alternates raw work and ours, because a disk's speed varies over time.
  void saves() {
    torch::optim::SGD optimizer(net_.parameters(), torch::optim::SGDOptions(0.1));
    const Nothing dataset;
    DataLoader<Example> loader(dataset, {}, 0, 1);
    Checkpointer checkpoints(job_, {.every = 2, .directory = this->checkpoints(), .keep = 1});
    TrainState state(net_, optimizer, loader);
    compute_step();
    for (int i = 0; i < 20; ++i) result_["step"].push_back(compute_step());
    auto memory = std::make_optional<Memory>(share_), source = std::make_optional<Memory>(share_);
    for (int round = 0; round <= plan_.rounds; ++round) {
      const double copied = together(job_, [&] { std::memcpy(memory->bytes, source->bytes, share_); });
      const double written = together(job_, [&] { write_raw(raw_path(), *memory); });
      if (round > 0) {
        result_["memcpy"].push_back(copied);
        result_["raw write"].push_back(written);
      }
      checkpoints.step(state);
      checkpoints.wait();
      std::int64_t begin = 0;
      const double blocked = together(job_, [&] {
        begin = now_ns();
        checkpoints.step(state);
      });
      const double committed = together(job_, [&] { CHECK(checkpoints.wait()); });
      result_[round == 0 ? "first blocked" : "blocked"].push_back(blocked);
      result_[round == 0 ? "first committed" : "committed"].push_back(blocked + committed);
    }
    memory.reset();
    source.reset();
    std::ofstream("/proc/self/clear_refs") << "5";
    for (int round = 0; round < plan_.rounds; ++round) {
      checkpoints.step(state);
      checkpoints.step(state);
      std::atomic<bool> done = false;
      std::thread waiting([&] {
        checkpoints.wait();
        done = true;
      });
      compute_step();
      while (!done) result_["step while saving"].push_back(compute_step());
      waiting.join();
    }
    result_["peak MiB of saving"] = {static_cast<double>(status_kib("VmHWM:")) / 1024};
  }

  // Each rank has saved its share; a rank restores the whole state. Alternates with a memcpy of as many
  // bytes.
  void in_memory() {
    torch::optim::SGD optimizer(net_.parameters(), torch::optim::SGDOptions(0.1));
    const Nothing dataset;
    DataLoader<Example> loader(dataset, {}, 0, 1);
    Checkpointer checkpoints(job_, {.every = 1 << 30, .memory_every = 2, .directory = this->checkpoints()});
    TrainState state(net_, optimizer, loader);
    checkpoints.restore(state);
    for (int round = 0; round < plan_.rounds + 2; ++round) {
      checkpoints.step(state);
      std::this_thread::sleep_for(std::chrono::seconds(1));  // the first save allocates the memory
      const double blocked = together(job_, [&] { checkpoints.step(state); });
      result_[round < 2 ? "first blocked" : "blocked"].push_back(blocked);
      std::this_thread::sleep_for(std::chrono::seconds(1));  // and hashing of this save ends
    }
    const auto bytes = static_cast<std::size_t>(plan_.mib) << 20;
    const Memory memory(bytes);
    const Memory source(bytes);
    for (int round = 0; round < plan_.rounds; ++round) {
      result_["memcpy"].push_back(together(job_, [&] { std::memcpy(memory.bytes, source.bytes, bytes); }));
      result_["restored"].push_back(
          together(job_, [&] { CHECK(checkpoints.restore(state) == 2 * (plan_.rounds + 2)); }));
    }
  }

  void restores() {
    for (int round = 0; round < plan_.rounds; ++round) {
      {
        const Memory memory(share_);
        if (job_.rank() == 0) drop_caches(plan_.directory);
        result_["raw read"].push_back(together(job_, [&] { read_raw(raw_path(), memory); }));
      }
      torch::optim::SGD optimizer(net_.parameters(), torch::optim::SGDOptions(0.1));
      const Nothing dataset;
      DataLoader<Example> loader(dataset, {}, 0, 1);
      Checkpointer checkpoints(job_, {.directory = this->checkpoints(), .read_only = true});
      TrainState state(net_, optimizer, loader);
      job_.barrier();
      if (job_.rank() == 0) drop_caches(plan_.directory);
      std::ofstream("/proc/self/clear_refs") << "5";
      const auto before = status_kib("VmRSS:");
      result_["restored"].push_back(together(job_, [&] { CHECK(checkpoints.restore(state) > 0); }));
      result_["more MiB while restoring"].push_back(static_cast<double>(status_kib("VmHWM:") - before) /
                                                    1024);
    }
  }

  Job& job_;
  const Plan& plan_;
  Net net_;
  std::size_t share_;
  nlohmann::json result_;
};

int run(int argc, char** argv) {
  CLI::App app("Saves and restores, for the benchmark of checkpoints");
  Plan plan;
  app.add_option("directory", plan.directory)->required();
  app.add_option("--mib", plan.mib);
  app.add_option("--ranks", plan.ranks);
  app.add_option("--rounds", plan.rounds);
  app.add_flag("--memory", plan.memory);
  CLI11_PARSE(app, argc, argv);
  fs::create_directories(plan.directory);
  if (plan.memory) {
    Job job = init();
    at::set_num_threads(1);
    const auto result = Bench(job, plan).run();
    if (job.rank() == 0) std::ofstream(plan.directory + "/memory.json") << result.dump();
    return 0;
  }
  spawn(
      [&](Job& job) {
        at::set_num_threads(1);
        const auto result = Bench(job, plan).run();
        if (job.rank() == 0) std::ofstream(plan.directory + "/muster.json") << result.dump();
      },
      plan.ranks);
  fs::remove_all(plan.directory + "/checkpoints");
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
