#include "runtime/rank/reports.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <stop_token>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "common/base/clock.h"
#include "common/base/quiet_thread.h"
#include "runtime/rank/activity.h"
#include "runtime/rank/sections.h"
#include "runtime/rank/stacks.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/trace.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kHeartbeatInterval{1};
constexpr int kHeartbeatsPerProfile = 10;
// Reports of steps are limited. If the limit leaves out the report of a step, the agent learns of this step
// only with the next heartbeat. But if the worker is killed, there is no next heartbeat. So the limits below
// leave out no report of a step that takes 10 ms or more.
constexpr std::chrono::milliseconds kStepInterval{10};
constexpr std::chrono::milliseconds kStepBurst = 100 * kStepInterval;
constexpr std::chrono::milliseconds kRetryInterval{20};
constexpr std::chrono::seconds kLastWordsLimit{5};  // shorter than any usable grace period
constexpr std::size_t kMostKept = 256;              // one more drops the oldest: the agent no longer reads
// The limit for kept datagrams of metrics. It is more than a training reports while its agent is busy.
constexpr std::size_t kMostKeptMetrics = 4096;
constexpr std::size_t kValuesPerDatagram = 16;           // so that it stays below 4 KiB
constexpr std::size_t kReportTextBytes = 512;            // JSON can make 6 bytes of one: 3 KiB
constexpr std::chrono::milliseconds kAnswerLimit{1000};  // after this the question is sent again
constexpr int kQuestions = 10;
constexpr std::size_t kMostSlots = 253;                  // descriptors in one datagram
constexpr std::chrono::milliseconds kStacksLimit{1000};  // the agent waits for 1.5 s

UniqueFd connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return {};
  // Binds the socket to any free address. Without an address, the agent could not send orders to this
  // process.
  const sockaddr own{AF_UNIX, {}};
  [[maybe_unused]] const int bound = bind(fd.get(), &own, sizeof own.sa_family);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  return fd;
}

// Receives a datagram, with the file descriptors in it. Returns "" if no datagram has arrived.
std::string receive_with_fds(int socket, std::vector<UniqueFd>& fds) {
  char bytes[8 << 10];
  iovec part{bytes, sizeof bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostSlots * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size <= 0) return "";
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    std::vector<int> given((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(given.data(), CMSG_DATA(header), given.size() * sizeof(int));
    for (const int fd : given) fds.emplace_back(fd);
  }
  return {bytes, static_cast<std::size_t>(size)};
}

}  // namespace

Reports::Reports(const std::string& socket_path, int rank, std::uint64_t attempt,
                 std::function<std::vector<FlightRecord>()> flight_records)
    : socket_path_(socket_path),
      socket_(connect_to(socket_path)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      rank_(rank),
      attempt_(attempt),
      flight_records_(std::move(flight_records)) {
  if (!socket_) return;
  writes_stacks_ = prepare_stacks();
  listen_to_sections(this, [this](const SectionChange& change) {
    return transmit("section", {{"name", change.name}, {"state", change.entered ? "enter" : "leave"}});
  });
  heart_ = start_quiet_thread("muster-heart", [this](const std::stop_token& stop) { beat(stop); });
}

Reports::~Reports() {
  stop_listening_to_sections(this);
  const bool has_metrics = [this] {
    const std::lock_guard lock(kept_mutex_);
    return !kept_metrics_.empty();
  }();
  // If the launcher does not get the last value of a trial in a sweep, it may count the trial as failed. So
  // this process waits longer if metrics are left.
  hand_over_within(has_metrics ? kLastWordsLimit : std::chrono::milliseconds(kRetryInterval));
}

void Reports::describe_step(std::optional<double> loss, std::int64_t samples) {
  const std::lock_guard lock(numbers_mutex_);
  loss_ = loss;
  samples_ = samples;
}

void Reports::step(std::int64_t step) {
  step_.store(step, std::memory_order_relaxed);
  const TimePoint ended = Clock::now();
  if (TraceFile* const trace = trace_file()) {
    if (const auto began = step_time().step_began())
      trace->add(TraceTrack::kStep, fmt::format("step {}", step), *began, ended);
  }
  const auto busy = step_time().step_ended(ended);
  const Duration now = ended.time_since_epoch();
  const Duration paid = std::max(now, Duration(paid_until_.load(std::memory_order_relaxed))) + kStepInterval;
  const auto [loss, samples] = take_numbers();
  if (paid - now > kStepBurst) return;
  paid_until_.store(paid.count(), std::memory_order_relaxed);
  nlohmann::json fields{{"step", step}, {"text", model_part()}};
  if (std::string group = step_time().group(); !group.empty()) fields["group"] = std::move(group);
  if (loss) fields["loss"] = *loss;  // null if it is NaN or infinite
  if (samples > 0) fields["samples"] = samples;
  if (busy) fields["busy_ms"] = std::chrono::duration<double, std::milli>(*busy).count();
  transmit("step", fields);
}

std::pair<std::optional<double>, std::int64_t> Reports::take_numbers() {
  const std::lock_guard lock(numbers_mutex_);
  return {std::exchange(loss_, std::nullopt), std::exchange(samples_, 0)};
}

void Reports::send(std::string_view type, std::int64_t step, std::string_view text) {
  if (!socket_) return;
  {
    const std::lock_guard lock(kept_mutex_);
    if (kept_.size() == kMostKept) kept_.pop_front();
    kept_.push_back(datagram(type, {{"step", step}, {"text", text.substr(0, kReportTextBytes)}}));
  }
  // After a notice, a commit may be the last thing that this process does.
  if (type == "preempted" || (type == "committed" && noticed_)) return hand_over_within(kLastWordsLimit);
  if (!hand_over_kept()) eventfd_write(wake_.get(), 1);
}

void Reports::metrics(std::int64_t step, const std::map<std::string, double>& values) {
  if (!socket_) return;
  nlohmann::json part = nlohmann::json::object();
  const auto keep = [&] {
    if (kept_metrics_.size() == kMostKeptMetrics) kept_metrics_.pop_front();
    kept_metrics_.push_back(datagram("metric", {{"step", step}, {"values", part}}));
    part = nlohmann::json::object();
  };
  {
    const std::lock_guard lock(kept_mutex_);
    for (const auto& [name, value] : values) {
      if (std::isfinite(value))
        part[name] = value;
      else
        part[name] = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
      if (part.size() == kValuesPerDatagram) keep();
    }
    if (!part.empty()) keep();
  }
  if (!hand_over_kept()) eventfd_write(wake_.get(), 1);
}

// The heartbeat thread reads everything that arrives on the shared socket. So this function asks on a second
// socket, where the heartbeat thread cannot take the answer.
Expected<std::vector<Reports::MemorySlot>> Reports::memory_slots(std::uint64_t slot_bytes) const {
  if (socket_path_.empty())
    return failure(ErrorCode::kUnavailable, "the program was not started by launch --memory-tier");
  const UniqueFd socket = connect_to(socket_path_);
  if (!socket) return failure(ErrorCode::kUnavailable, "the agent is gone");
  const std::string question = datagram("memory_slots", {{"bytes", slot_bytes}});
  std::vector<UniqueFd> fds;
  nlohmann::json said;
  bool asks = true;
  for (int left = kQuestions; left > 0 && !said.is_object(); --left) {
    if (asks) ::send(socket.get(), question.data(), question.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    asks = true;
    pollfd source{socket.get(), POLLIN, 0};
    if (poll(&source, 1, static_cast<int>(kAnswerLimit.count())) <= 0) continue;
    said = nlohmann::json::parse(receive_with_fds(socket.get(), fds), nullptr, false);
    if (!said.is_object() || !said.contains("later")) continue;
    // The agent is fetching the slots from another agent, and answers when it has them.
    said = nullptr;
    asks = false;
    left = kQuestions;
  }
  if (!said.is_object()) return failure(ErrorCode::kUnavailable, "the agent does not answer");
  if (said.contains("refused"))
    return failure(ErrorCode::kUnavailable, "{}", said["refused"].get<std::string>());
  const auto ranks = said.at("ranks").get<std::vector<int>>();
  if (ranks.size() != fds.size()) return failure(ErrorCode::kUnavailable, "too few descriptors are free");
  std::vector<MemorySlot> slots;
  for (std::size_t i = 0; i < fds.size(); ++i) slots.push_back({ranks[i], std::move(fds[i])});
  return slots;
}

void Reports::offer_preemption() {
  if (offers_preemption_.exchange(true)) return;
  greeted_ = false;
  say_hello();
}

std::string Reports::datagram(std::string_view type, const nlohmann::json& fields) const {
  nlohmann::json message{{"v", 1}, {"type", type}, {"rank", rank_}, {"attempt", attempt_}, {"pid", getpid()}};
  message.update(fields);
  return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Returns false if the datagram was not sent, because the buffer is full or the agent is gone. Training
// continues in any case.
bool Reports::transmit(std::string_view type, const nlohmann::json& fields) {
  if (!socket_) return false;
  const std::string bytes = datagram(type, fields);
  return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

// Sends the report. If that fails but a later attempt can succeed, returns false. If the agent is gone,
// returns true, because no attempt can succeed.
bool Reports::hand_over(const std::string& bytes) {
  if (::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
  return errno != EAGAIN && errno != EINTR && errno != ENOBUFS && errno != ENOMEM;
}

// Returns true if nothing is left.
bool Reports::hand_over(std::deque<std::string>& kept) {
  while (!kept.empty() && hand_over(kept.front())) kept.pop_front();
  return kept.empty();
}

bool Reports::hand_over_kept() {
  const std::lock_guard lock(kept_mutex_);
  return hand_over(kept_) && hand_over(kept_metrics_);
}

std::size_t Reports::kept_count() {
  const std::lock_guard lock(kept_mutex_);
  return kept_.size() + kept_metrics_.size();
}

void Reports::hand_over_within(std::chrono::milliseconds limit) {
  TimePoint end = Clock::now() + limit;
  for (std::size_t left = kept_count(); !hand_over_kept() && Clock::now() < end;) {
    if (const std::size_t count = kept_count(); count < left) {
      left = count;
      end = Clock::now() + limit;
    }
    pollfd room{socket_.get(), POLLOUT, 0};
    poll(&room, 1, static_cast<int>(kRetryInterval.count()));
  }
}

void Reports::beat(const std::stop_token& stop) {
  const std::stop_callback ring(stop, [this] { eventfd_write(wake_.get(), 1); });
  TimePoint next = Clock::now();
  int count = 0;
  while (!stop.stop_requested()) {
    if (Clock::now() >= next) {
      say_hello();
      send_heartbeat();
      if (++count % kHeartbeatsPerProfile == 0) send_profile();
      next = Clock::now() + kHeartbeatInterval;
    }
    auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    if (!hand_over_kept()) left = std::min(left, kRetryInterval);
    listen(std::max(left, std::chrono::milliseconds(0)));
  }
}

// If many ranks start at once, the agent's socket overflows. The thread that sends heartbeats then repeats
// the hello until the agent has it.
void Reports::say_hello() {
  if (greeted_.exchange(true)) return;
  std::string capabilities = writes_stacks_ ? "stacks" : "";
  if (offers_preemption_) capabilities += capabilities.empty() ? "preemption" : " preemption";
  if (!transmit("hello", {{"text", capabilities}})) greeted_ = false;
}

void Reports::send_heartbeat() {
  with_innermost_section([this](const std::string& name, std::chrono::milliseconds time) {
    transmit(
        "heartbeat",
        {{"step", newest_step()}, {"section", name}, {"section_ms", time.count()}, {"activity", activity()}});
  });
}

void Reports::send_profile() {
  const RankSteps total = step_time().total();
  if (total.step_count == 0) return;
  nlohmann::json parts;
  for (const auto& [part, ns] : total.parts_ns) parts[part] = static_cast<double>(ns) / 1e6;
  transmit("profile", {{"steps", total.step_count}, {"parts_ms", std::move(parts)}});
}

void Reports::listen(std::chrono::milliseconds limit) {
  pollfd sources[] = {{wake_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
  if (poll(sources, 2, static_cast<int>(limit.count())) <= 0) return;
  eventfd_t rung = 0;
  if (sources[0].revents != 0) eventfd_read(wake_.get(), &rung);
  char datagram[8 << 10];
  ssize_t size = 0;
  while ((size = recv(socket_.get(), datagram, sizeof datagram, MSG_DONTWAIT)) > 0)
    obey({datagram, static_cast<std::size_t>(size)});
  // If the agent is gone, the socket stays readable for ever, so the poll() above returns at once. In this
  // case, this code waits again, but only for the wake-up (sources[0]).
  if ((sources[1].revents & (POLLERR | POLLHUP)) != 0) poll(sources, 1, static_cast<int>(limit.count()));
}

void Reports::obey(std::string_view datagram) {
  const nlohmann::json order = nlohmann::json::parse(datagram, nullptr, false);
  if (!order.is_object() || !order.contains("type")) return;
  if (order["type"] == "dump" && order.contains("path") && order["path"].is_string())
    write_stacks(order["path"].get<std::string>());
  if (order["type"] == "preempt") noticed_ = true;
}

namespace {

// Writes a new file under another name and then renames it, because the agent may be reading the old file.
bool write_anew(const std::string& path, const std::string& text) {
  const std::string unfinished = path + ".new";
  UniqueFd file(
      open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
  return file && write_all(file.get(), text, unfinished) && rename(unfinished.c_str(), path.c_str()) == 0;
}

}  // namespace

void Reports::write_stacks(const std::string& path) {
  const std::string at = activity();
  std::string stacks = at.empty() ? "" : "at " + at + "\n";
  const auto records = flight_records_ ? flight_records_() : std::vector<FlightRecord>();
  for (const FlightRecord& record : records) {
    for (const std::string& line : record.lines) stacks += line + "\n";
    const std::size_t folder = path.rfind('/') + 1;
    write_anew(fmt::format("{}flight_recorder.{}.json", path.substr(0, folder), record.backend), record.json);
  }
  stacks += describe_stacks(kStacksLimit);
  if (write_anew(path, stacks)) transmit("stacks", nlohmann::json::object());
}

}  // namespace muster
