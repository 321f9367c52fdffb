#include "bench/collectives/rank.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <muster/muster.h>
#include <numeric>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/torch.h>
#include <unistd.h>

#include "bench/measure.h"
#include "common/base/file.h"
#include "runtime/comm/shm/segment.h"

namespace muster::bench {
namespace {

constexpr std::size_t kBytesPerTurn = std::size_t{8} << 20;
constexpr int kMostCalls = 200;

struct Contender {
  // Makes `calls` calls on every rank with a tensor of floats; returns microseconds per call. Rank 0's
  // counts.
  using Turn = std::function<double(const at::Tensor&, int calls)>;
  std::string name;
  // Null: the contender does not have this call.
  Turn all_reduce;
  Turn there_and_back;
};

Contender::Turn timed(const std::function<void(const at::Tensor&)>& call) {
  return [call](const at::Tensor& tensor, int calls) {
    const std::int64_t began = now_ns();
    for (int i = 0; i < calls; ++i) call(tensor);
    return static_cast<double>(now_ns() - began) / 1e3 / calls;
  };
}

// Between the first two ranks.
Contender::Turn messages_of(const Group& group) {
  return timed([group](const at::Tensor& tensor) {
    if (group.rank() == 0) {
      send(group, tensor, 1);
      recv(group, tensor, 1);
    } else if (group.rank() == 1) {
      recv(group, tensor, 0);
      send(group, tensor, 0);
    }
  });
}

Contender of_backend(const Job& job, const std::string& backend) {
  std::vector<int> ranks(static_cast<std::size_t>(job.world_size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const Group group = job.new_group(ranks, {.backend = backend});
  return {backend, timed([group](const at::Tensor& tensor) { all_reduce(group, tensor); }),
          messages_of(group)};
}

Contender floor_of_memory() {
  const auto segment = std::make_shared<shm::Segment>(std::move(*shm::Segment::create(1)));
  const auto copy = [segment](const at::Tensor& tensor) {
    auto* const data = static_cast<std::byte*>(tensor.mutable_data_ptr());
    std::uint64_t piece = 0;
    for (std::size_t at = 0; at < tensor.nbytes(); at += shm::kSumBytes, ++piece) {
      const std::size_t bytes = std::min(shm::kSumBytes, tensor.nbytes() - at);
      std::memcpy(segment->sum_buffer(0, piece), data + at, bytes);
      std::memcpy(data + at, segment->sum_buffer(0, piece), bytes);
    }
  };
  return {"floor: memcpy", timed(copy), nullptr};
}

// The floor of a call of c10d::ProcessGroup: torch's operator and a Work, over a backend that does nothing.
// DDP and a program's own calls pay for it; Muster's functions call the backend directly.
Contender floor_of_torch(const Job& job) {
  struct Done : c10d::Work {
    Done() { finish(); }
  };
  struct Nothing : c10d::Backend {
    using Backend::Backend;
    const std::string getBackendName() const override { return "nothing"; }
    c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&,
                                             const c10d::AllreduceOptions&) override {
      return c10::make_intrusive<Done>();
    }
  };
  auto group = c10::make_intrusive<c10d::ProcessGroup>(job.store(), job.rank(), job.world_size());
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<Nothing>(job.rank(), job.world_size()));
  const auto call = [group](const at::Tensor& tensor) {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> tensors{tensor};
    c10d::AllreduceOptions options;
    options.asyncOp = false;
    group->allreduce(tensors, options)->wait();
  };
  return {"floor: torch's operator", timed(call), nullptr};
}

// Opening a fifo for writing fails until the other job reads, so this does not wait for a job that never
// starts.
UniqueFd open_for_orders(const std::string& path) {
  constexpr std::int64_t kLimitNs = 60'000'000'000;
  for (const std::int64_t began = now_ns(); now_ns() - began < kLimitNs;) {
    if (const int fd = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC); fd >= 0) return UniqueFd(fd);
    CHECK(errno == ENXIO, "{}: {}", path, std::strerror(errno));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  throw std::runtime_error("the ranks of plain MPI did not start: see the files next to " + path);
}

// Rank 0 measures plain MPI; the other ranks of this job sleep.
Contender of_plain_mpi(const Job& job, const std::string& directory) {
  struct Fifos {
    std::vector<UniqueFd> orders;
    UniqueFd answers;
  };
  const auto fifos = std::make_shared<Fifos>();
  if (job.rank() == 0) {
    for (int rank = 0; rank < job.world_size(); ++rank)
      fifos->orders.push_back(open_for_orders(fmt::format("{}/orders.{}", directory, rank)));
    fifos->answers.reset(open((directory + "/answers").c_str(), O_RDONLY | O_CLOEXEC));
    CHECK(fifos->answers, "{}: {}", directory, std::strerror(errno));
  }
  const auto all_reduce = [fifos](const at::Tensor& tensor, int calls) {
    const std::int64_t order[] = {static_cast<std::int64_t>(tensor.nbytes()), calls};
    for (const UniqueFd& each : fifos->orders)
      CHECK(write(each.get(), order, sizeof order) == sizeof order, "{}", std::strerror(errno));
    double microseconds = 0;
    if (fifos->answers)
      CHECK(read(fifos->answers.get(), &microseconds, sizeof microseconds) == sizeof microseconds,
            "plain MPI does not answer: {}", std::strerror(errno));
    return microseconds;
  };
  return {kPlain, all_reduce, nullptr};
}

std::string size_text(std::size_t bytes) {
  if (bytes >= std::size_t{1} << 20) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1024) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

// Returns the rows on rank 0; the other ranks' result is meaningless.
std::vector<Series> compare(const Job& job, const std::vector<Contender>& all,
                            Contender::Turn Contender::* does, std::size_t bytes, int rounds) {
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
      const double value = (each.*does)(tensor, calls);
      if (round > 0) rows[row].values.push_back(value);  // the first round warms up
      ++row;
    }
  }
  return rows;
}

}  // namespace

void measure_as_rank(const Settings& settings) {
  const Job job = init();
  at::set_num_threads(1);
  std::vector<Contender> all;
  for (const std::string& each : settings.backends) all.push_back(of_backend(job, each));
  if (settings.plain) all.push_back(of_plain_mpi(job, settings.directory));
  all.push_back(floor_of_memory());
  all.push_back(floor_of_torch(job));
  nlohmann::json report = nlohmann::json::array();
  const auto tell = [&](const std::string& what, std::size_t bytes, bool is_all_reduce,
                        const std::vector<Series>& rows) {
    auto table = to_json(fmt::format("{}, {} ranks", what, job.world_size()), "microseconds a call", rows);
    table["bytes"] = bytes;
    table["ranks"] = job.world_size();
    table["all_reduce"] = is_all_reduce;
    report.push_back(std::move(table));
  };
  for (std::size_t bytes = 4; bytes <= settings.most_bytes; bytes *= bytes == 4 ? 16 : 4) {
    if (bytes < settings.least_bytes) continue;
    tell(fmt::format("all-reduce of {}", size_text(bytes)), bytes, true,
         compare(job, all, &Contender::all_reduce, bytes, settings.rounds));
  }
  for (std::size_t bytes = 4; bytes <= std::min(settings.most_bytes, std::size_t{4} << 20); bytes *= 16) {
    if (bytes < settings.least_bytes) continue;
    tell(fmt::format("a message of {} there and back", size_text(bytes)), bytes, false,
         compare(job, all, &Contender::there_and_back, bytes, settings.rounds));
  }
  if (job.rank() == 0) std::ofstream(settings.directory + "/" + kReport) << report;
}

}  // namespace muster::bench
