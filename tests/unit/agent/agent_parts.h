// Small fakes of an Agent's parts: nothing happens by itself, and every call is recorded in one list, in
// order.
#pragma once

#include <fmt/format.h>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/io/agent.h"
#include "common/base/check.h"
#include "tests/hand_time.h"

namespace muster::agent {

using Noted = std::vector<std::string>;

// The launcher's end of an agent's channel.
class HandChannel final : public net::Channel {
 public:
  void start(OnFrame on_frame, OnClosed on_closed) override {
    on_frame_ = std::move(on_frame);
    on_closed_ = std::move(on_closed);
  }
  void send(std::string_view frames, std::string_view more) override {
    std::vector<wire::Frame> cut;
    CHECK(reader_.feed(std::string(frames).append(more), cut), "an agent's frame");
    for (const wire::Frame& frame : cut) sent.push_back(wire::decode_for_launcher(frame).value());
  }
  std::size_t backlog_bytes() const override { return backlog; }
  bool closed() const override { return closed_; }
  void close() override { closed_ = true; }

  void say(NodeId node, Attempt attempt, const wire::ToAgent& message) {
    sequence_ = sequence_.next();
    std::vector<wire::Frame> cut;
    CHECK(to_agent_.feed(
              wire::encode({.destination = node, .term = Term(1), .attempt = attempt, .sequence = sequence_},
                           message),
              cut),
          "a launcher's frame");
    for (const wire::Frame& frame : cut) on_frame_(frame);
  }
  void hear(const wire::Frame& frame) { on_frame_(frame); }
  void end() {
    closed_ = true;
    on_closed_(Error(ErrorCode::kUnavailable, "the launcher is gone"));
  }

  std::vector<wire::ToLauncher> sent;
  std::size_t backlog = 0;

 private:
  OnFrame on_frame_;
  OnClosed on_closed_;
  wire::FrameReader reader_, to_agent_;
  Sequence sequence_;
  bool closed_ = false;
};

struct HandProcesses final : Processes {
  explicit HandProcesses(Noted& noted) : asked(noted) {}
  void begin(ProcessListener& agent) override { listener = &agent; }
  void set_job(const wire::JobSpec&) override {}
  std::string other_checkpoints() const override { return "is not there"; }
  MemoryTold memory_told() const override { return {}; }
  std::expected<void, StartFailure> open(const OpenAttempt& attempt) override {
    asked.push_back(fmt::format("open {}", attempt.attempt));
    if (failure) return std::unexpected(*failure);
    return {};
  }
  std::expected<Started, StartFailure> start(LocalRank local_rank, const wire::StartWorkers&) override {
    asked.push_back(fmt::format("start {}", local_rank));
    return Started{.pid = 100 + local_rank.value(), .gpu = local_rank.value()};
  }
  void give_input(const wire::Input& input) override {
    asked.push_back(fmt::format("input '{}'{}", input.text.view(), input.end ? " end" : ""));
  }
  void look_at_input() override {
    if (unsaid) listener->input_taken(*std::exchange(unsaid, std::nullopt));
  }
  void signal(std::int32_t pid, std::int32_t signal) override {
    asked.push_back(fmt::format("signal {} to {}", signal, pid));
  }
  void close() override { asked.emplace_back("close workers"); }
  void write_memory_out() override { asked.emplace_back("write memory out"); }

  Noted& asked;
  ProcessListener* listener = nullptr;
  std::optional<StartFailure> failure;
  std::optional<wire::InputTaken> unsaid;
};

struct HandTemplate final : TemplateHost {
  explicit HandTemplate(Noted& noted) : asked(noted) {}
  bool load() override { return loads; }
  bool load_for(const wire::PrepareAttempt& likely) override {
    asked.push_back(fmt::format("load template for {}", likely.local_world_size));
    return loads;
  }
  void give_up(const std::string& reason) override { asked.push_back("give template up: " + reason); }
  void end() override { asked.emplace_back("end template"); }

  Noted& asked;
  bool loads = false;
};

struct HandLeftovers final : Leftovers {
  explicit HandLeftovers(Noted& noted) : asked(noted) {}
  std::optional<std::vector<std::int32_t>> find() override { return left; }
  void kill(std::int32_t pid) override { asked.push_back(fmt::format("kill {}", pid)); }
  Leftover kill_and_name(std::int32_t pid) override {
    asked.push_back(fmt::format("name {}", pid));
    return {.pid = pid, .name = "daemon", .uid = 0, .error = 1};
  }

  Noted& asked;
  std::optional<std::vector<std::int32_t>> left = std::vector<std::int32_t>();
};

struct HandTalk final : WorkerTalk {
  explicit HandTalk(Noted& noted) : asked(noted) {}
  void receive_waiting() override {
    if (waiting) std::exchange(waiting, nullptr)();
  }
  bool preempt(const std::string& address, Duration) override {
    asked.push_back("preempt " + address);
    return true;
  }
  void dump_stacks(const std::vector<Worker>& workers) override {
    for (const Worker& worker : workers)
      asked.push_back(fmt::format("stacks of {} at '{}'", worker.rank, worker.address));
  }

  Noted& asked;
  std::function<void()> waiting;
};

struct HandVitals final : Vitals {
  std::map<Rank, ProcessState> look(const std::map<Rank, std::int32_t>&) override { return states; }
  std::map<Rank, MainThread> look_at_threads(const std::map<Rank, std::int32_t>&) override {
    return std::exchange(threads, {});
  }
  std::vector<GpuFault> take_gpu_faults() override { return std::exchange(faults, {}); }
  std::optional<std::string> held_gpu_memory() override { return held; }
  std::vector<wire::RankUsage> usage(const std::map<Rank, WorkerHealth::Worker>& workers) override {
    std::vector<wire::RankUsage> all;
    for (const auto& [rank, worker] : workers) all.push_back({.rank = rank, .memory_bytes = worker.pid});
    return all;
  }

  std::optional<std::string> held = "";
  std::map<Rank, ProcessState> states;
  std::map<Rank, MainThread> threads;
  std::vector<GpuFault> faults;
};

struct HandLogs final : Logs {
  explicit HandLogs(Noted& noted) : asked(noted) {}
  void begin(LogsListener& agent) override { listener = &agent; }
  LogPlace place_for(const wire::JobSpec& job) override {
    return place.value_or(LogPlace{job.log_directory});
  }
  Expected<std::vector<std::string>> open(const wire::JobSpec&, const OpenAttempt&) override {
    asked.emplace_back("open logs");
    return opened;
  }
  LastWords last_words(LocalRank, bool) override { return {"{}", {"the last line"}}; }
  bool output_waits() const override { return waits; }
  void hurry() override { asked.emplace_back("hurry"); }
  void finish() override { asked.emplace_back("finish logs"); }
  void taken(Attempt attempt, const wire::LogTaken& taken) override {
    asked.push_back(fmt::format("{} bytes of attempt {} taken", taken.bytes, attempt));
  }
  bool sent() override { return all_sent; }
  void close() override { asked.emplace_back("close logs"); }

  Noted& asked;
  LogsListener* listener = nullptr;
  Expected<std::vector<std::string>> opened = std::vector<std::string>();
  bool waits = false;
  std::optional<LogPlace> place{};
  bool all_sent = true;
};

struct HandStore final : StoreHost {
  explicit HandStore(Noted& noted) : asked(noted) {}
  Expected<std::int32_t> open(const wire::JobSpec&, const wire::PrepareAttempt&) override { return port; }
  void reach(const wire::JobSpec&, const wire::StartWorkers& start,
             std::function<void(const Status&)> done) override {
    asked.push_back(fmt::format("reach {} port {}", start.master_address, start.master_port));
    answer = std::move(done);
  }
  void close(bool keep) override { asked.emplace_back(keep ? "keep store" : "close store"); }

  Noted& asked;
  Expected<std::int32_t> port = 1234;
  std::function<void(const Status&)> answer;
};

struct HandMpi final : MpiHost {
  explicit HandMpi(Noted& noted) : asked(noted) {}
  void begin(MpiListener& agent) override { listener = &agent; }
  std::expected<void, StartFailure> open(const wire::JobSpec&, const OpenAttempt&) override {
    asked.emplace_back("open MPI");
    if (failure) return std::unexpected(*failure);
    return {};
  }
  void hear(const wire::MpiTold& told) override {
    asked.push_back(fmt::format("MPI answer {}", told.number));
  }
  std::string fault_of(LocalRank, wire::WorkerExited&) override { return fault; }
  void close() override { asked.emplace_back("close MPI"); }

  Noted& asked;
  MpiListener* listener = nullptr;
  std::optional<StartFailure> failure;
  std::string fault;
};

}  // namespace muster::agent
