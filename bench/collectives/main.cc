// An all-reduce, and a message there and back, of ranks on this host: over each backend, and as the floor,
// each rank's copying its tensor into shared memory and out of it again, without waiting for anybody.
//
//   collectives                                      starts ranks itself
//   launch --mpi pmix ... collectives --backends gloo,shm,mpi    its ranks are a launcher's
//
// Contenders are measured in turn, some calls at a time; a value is the mean of those calls on rank 0.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <muster/muster.h>
#include <numeric>
#include <torch/torch.h>

#include "bench/measure.h"
#include "common/base/file.h"
#include "runtime/comm/shm/segment.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytesPerTurn = std::size_t{8} << 20;
constexpr int kMostCalls = 200;

struct Contender {
  std::string name;
  // One call, on every rank, of a tensor of floats. Null: it does not do this.
  std::function<void(const at::Tensor&)> all_reduce;
  std::function<void(const at::Tensor&)> there_and_back;
};

// Between the first two ranks.
std::function<void(const at::Tensor&)> messages_of(const Group& group) {
  return [group](const at::Tensor& tensor) {
    if (group.rank() == 0) {
      send(group, tensor, 1);
      recv(group, tensor, 1);
    } else if (group.rank() == 1) {
      recv(group, tensor, 0);
      send(group, tensor, 0);
    }
  };
}

Contender of_backend(const Job& job, const std::string& backend) {
  std::vector<int> ranks(static_cast<std::size_t>(job.world_size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const Group group = job.new_group(ranks, {.backend = backend});
  return {backend, [group](const at::Tensor& tensor) { all_reduce(group, tensor); }, messages_of(group)};
}

Contender floor_of_memory() {
  const auto segment = std::make_shared<shm::Segment>(std::move(*shm::Segment::create(1)));
  const auto copy = [segment](const at::Tensor& tensor) {
    auto* const data = static_cast<std::byte*>(tensor.mutable_data_ptr());
    std::uint64_t piece = 0;
    for (std::size_t at = 0; at < tensor.nbytes(); at += shm::kBufferBytes, ++piece) {
      const std::size_t bytes = std::min(shm::kBufferBytes, tensor.nbytes() - at);
      std::memcpy(segment->buffer(0, piece), data + at, bytes);
      std::memcpy(data + at, segment->buffer(0, piece), bytes);
    }
  };
  return {"floor: memcpy", copy, nullptr};
}

std::string size_text(std::size_t bytes) {
  if (bytes >= std::size_t{1} << 20) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1024) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

struct Settings {
  std::vector<int> ranks{2, 4};
  std::size_t most_bytes = std::size_t{256} << 20;
  int rounds = 9;
  std::vector<std::string> backends{"gloo", "shm"};
  bool json = false;
};

double time_turn(const std::function<void(const at::Tensor&)>& call, const at::Tensor& tensor, int calls) {
  const std::int64_t began = now_ns();
  for (int i = 0; i < calls; ++i) call(tensor);
  return static_cast<double>(now_ns() - began) / 1e3 / calls;
}

// On rank 0, the rows; elsewhere nothing that counts.
std::vector<Series> compare(const Job& job, const std::vector<Contender>& all,
                            std::function<void(const at::Tensor&)> Contender::* does, std::size_t bytes,
                            int rounds) {
  const at::Tensor tensor = at::zeros({static_cast<std::int64_t>(bytes / sizeof(float))});
  const int calls = static_cast<int>(std::clamp<std::size_t>(kBytesPerTurn / bytes, 1, kMostCalls));
  std::vector<Series> rows;
  for (const Contender& each : all)
    if (each.*does) rows.push_back({each.name, {}, {}});
  for (int round = 0; round < rounds + 1; ++round) {
    std::size_t row = 0;
    for (const Contender& each : all) {
      if (!(each.*does)) continue;
      barrier(job);
      const double value = time_turn(each.*does, tensor, calls);
      if (round > 0) rows[row].values.push_back(value);  // the first one warms up
      ++row;
    }
  }
  return rows;
}

// A rank's part; rank 0 leaves what it measured in the file, or prints it.
void measure(const Job& job, const Settings& settings, const fs::path& file) {
  at::set_num_threads(1);
  std::vector<Contender> all;
  for (const std::string& each : settings.backends) all.push_back(of_backend(job, each));
  all.push_back(floor_of_memory());
  nlohmann::json report = nlohmann::json::array();
  const auto tell = [&](const std::string& title, const std::vector<Series>& rows) {
    if (job.rank() != 0) return;
    if (settings.json)
      report.push_back(to_json(title, "microseconds", rows));
    else
      print_table(title, "microseconds a call", rows);
    std::fflush(stdout);
  };
  for (std::size_t bytes = 4; bytes <= settings.most_bytes; bytes *= bytes == 4 ? 16 : 4) {
    tell(fmt::format("all-reduce of {}, {} ranks", size_text(bytes), job.world_size()),
         compare(job, all, &Contender::all_reduce, bytes, settings.rounds));
  }
  for (std::size_t bytes = 4; bytes <= std::min(settings.most_bytes, std::size_t{4} << 20); bytes *= 16)
    tell(fmt::format("a message of {} there and back, {} ranks", size_text(bytes), job.world_size()),
         compare(job, all, &Contender::there_and_back, bytes, settings.rounds));
  if (job.rank() == 0 && settings.json) std::ofstream(file) << report;
}

int run(int argc, char** argv) {
  Settings settings;
  CLI::App app("Collectives of ranks on one host");
  app.add_option("--ranks", settings.ranks, "Numbers of ranks")->delimiter(',')->check(CLI::Range(2, 64));
  app.add_option("--most", settings.most_bytes, "The largest tensor, in bytes");
  app.add_option("--rounds", settings.rounds, "Turns of each contender")->check(CLI::Range(1, 1000));
  app.add_option("--backends", settings.backends, "Contenders, the first of which is the measure")
      ->delimiter(',');
  app.add_flag("--json", settings.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  std::string scratch = (fs::temp_directory_path() / "muster-bench-XXXXXX").string();
  CHECK(mkdtemp(scratch.data()) != nullptr, "{}", scratch);
  const fs::path file = fs::path(scratch) / "report.json";
  nlohmann::json report = nlohmann::json::array();
  if (std::getenv("RANK") != nullptr) {  // under a launcher
    const Job job = init();
    settings.ranks.clear();
    measure(job, settings, file);
    if (job.rank() == 0 && settings.json) report = nlohmann::json::parse(read_file(file, 1 << 24).value());
  }
  for (const int ranks : settings.ranks) {
    spawn([&](Job& job) { measure(job, settings, file); }, ranks);
    if (!settings.json) continue;
    for (auto& each : nlohmann::json::parse(read_file(file, 1 << 24).value()))
      report.push_back(std::move(each));
  }
  fs::remove_all(scratch);
  if (settings.json && !report.empty()) fmt::print("{}\n", report.dump(2));
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
