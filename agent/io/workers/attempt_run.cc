#include "agent/io/workers/attempt_run.h"

#include <algorithm>
#include <boost/asio/ip/udp.hpp>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "agent/io/shared_directory.h"
#include "agent/io/workers/program.h"
#include "common/base/file.h"
#include "common/net/addresses.h"
#include "common/net/asio.h"
#include "common/wire/attempt_record.h"

namespace muster::agent {

namespace {

// A rank needs two descriptors for each of its two streams: a pipe and a file. It needs one more for the file
// with the order of the streams, and one for its pidfd.
constexpr rlim_t kDescriptorsPerRank = 6;

constexpr std::uint16_t kAnyPort = 9;

// Returns the own address from which this host reaches `address`. The kernel chooses this address when a UDP
// socket is connected.
std::string own_address_towards(const asio::ip::address& address) {
  boost::system::error_code failed;
  asio::io_context io;
  asio::ip::udp::socket socket(io);
  const asio::ip::udp::endpoint there(address, kAnyPort);
  socket.open(there.protocol(), failed);
  if (!failed) socket.connect(there, failed);
  if (failed) return {};
  const auto own = socket.local_endpoint(failed);
  return failed ? std::string() : own.address().to_string();
}

// Returns the name of a network interface: the one that has `address`. If no interface has it, returns the
// one through which this host reaches `address`. Sends nothing. Returns "" if the interface is loopback, if
// no route exists, or if `address` is not an IP address.
std::string interface_to(const std::string& address) {
  boost::system::error_code failed;
  const auto there = asio::ip::make_address(address, failed);
  if (failed || there.is_loopback()) return {};
  const std::vector<net::HostAddress> all = net::host_addresses();
  // First looks for `address` among the host's own addresses. The kernel's route to an own address leads to
  // the loopback interface, but other hosts reach the address at the interface that has it.
  for (const std::string& own : {there.to_string(), own_address_towards(there)}) {
    const auto found = std::ranges::find(all, own, &net::HostAddress::address);
    if (found != all.end()) return found->loopback ? "" : found->interface;
  }
  return {};
}

std::unexpected<StartFailure> failed(StartStep step, Error error) {
  return std::unexpected(StartFailure{step, std::move(error)});
}

Expected<std::string> program_of(const std::string& name, const wire::JobSpec& job,
                                 const NodeContext& context) {
  return find_program(name, search_path(context.inherited, job), job.working_directory);
}

}  // namespace

AttemptRun::OrFailure<std::unique_ptr<AttemptRun>> AttemptRun::open(Setting setting) {
  std::unique_ptr<AttemptRun> run(new AttemptRun(std::move(setting)));
  if (Status usable = run->check_directory(); !usable)
    return failed(StartStep::kWorkingDirectory, usable.error());
  const wire::JobSpec& job = run->setting_.job;
  auto program = program_of(job.command.empty() ? "" : job.command.front(), job, run->setting_.context);
  if (!program) return failed(StartStep::kProgram, program.error());
  if (Status readable = check_script(job); !readable) return failed(StartStep::kScript, readable.error());
  run->program_ = *std::move(program);
  if (auto found = run->find_wrappers(); !found) return std::unexpected(std::move(found.error()));
  if (Status opened = run->open_null(); !opened) return failed(StartStep::kResources, opened.error());
  if (Status enough = run->check_descriptors(); !enough) return failed(StartStep::kResources, enough.error());
  return run;
}

AttemptRun::OrFailure<void> AttemptRun::find_wrappers() {
  for (std::int32_t local = 0; local < setting_.plan.local_world_size; ++local) {
    const Rank rank = setting_.plan.rank_of(LocalRank(local));
    const auto words = wrapper_of(setting_.job, rank);
    if (words.empty() || wrappers_.contains(words.front())) continue;
    auto program = program_of(words.front(), setting_.job, setting_.context);
    if (!program) {
      return failed(StartStep::kProgram,
                    std::move(program).error().within(fmt::format("the wrapper of rank {} (--wrap)", rank)));
    }
    wrappers_[words.front()] = *std::move(program);
  }
  return {};
}

Status AttemptRun::check_directory() const {
  const std::string& directory = setting_.job.working_directory;
  const int fd = ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  const UniqueFd owned(fd);
  if (fd < 0 || access(directory.c_str(), X_OK) < 0)
    return system_failure("cannot use the working directory " + directory, errno);
  return {};
}

// Each attempt has a file in the checkpoint directory (docs/checkpoint_layout.md). If the directory here has
// the file of this attempt, it is the launcher's directory.
std::string AttemptRun::other_checkpoints() const {
  const std::string& directory = setting_.job.checkpoint_directory;
  const Attempt attempt = setting_.context.attempt;
  return why_not_shared(directory, fmt::format("{}/attempts/{:06}.json", directory, attempt.value()),
                        [&](const std::string& text) {
                          const auto record = parse_attempt_record(text, attempt);
                          return record && record->job == setting_.job.job_id;
                        });
}

Status AttemptRun::open_null() {
  null_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null_) return failure(ErrorCode::kInternal, "cannot open /dev/null: {}", std::strerror(errno));
  return {};
}

Status AttemptRun::check_descriptors() const {
  rlimit limit{};
  const auto ranks = static_cast<rlim_t>(setting_.plan.local_world_size);
  // Every rank of the job is a client of the store. Each client needs a descriptor.
  const auto clients = static_cast<rlim_t>(setting_.plan.host_store ? setting_.plan.world_size : 0);
  const auto lowest_free = static_cast<rlim_t>(null_.get()) + 1;
  const rlim_t wanted = lowest_free + kDescriptorsPerRank * ranks + clients;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && wanted <= limit.rlim_cur) return {};
  const std::string store = clients == 0 ? "" : fmt::format(" and serve {} ranks", clients);
  return system_failure(fmt::format("cannot watch {} workers{} with {} descriptors (wanted: {})", ranks,
                                    store, limit.rlim_cur, wanted),
                        EMFILE);
}

AttemptRun::OrFailure<AttemptRun::Started> AttemptRun::start(LocalRank local_rank,
                                                             const wire::StartWorkers& start, Given given,
                                                             WarmStart& warm) {
  if (given.streams[0] < 0) given.streams[0] = null_.get();
  const Rank rank = setting_.plan.rank_of(local_rank);
  std::vector<std::string> words = wrapper_of(setting_.job, rank);
  const std::string& program = words.empty() ? program_ : wrappers_.at(words.front());
  words.insert(words.end(), setting_.job.command.begin(), setting_.job.command.end());
  std::vector<std::string> arguments = arguments_of(words, local_rank);
  if (environment_.empty()) {
    setting_.context.interface = interface_to(start.master_address);
    environment_ = common_environment(setting_.context, setting_.job, setting_.plan, start);
    command_ = {.program = {},
                .arguments = {},
                .environment = {},
                .working_directory = setting_.job.working_directory,
                .descriptor_limit = setting_.descriptor_limit};
  }
  for (const auto& [name, value] :
       rank_environment(setting_.context, setting_.job, setting_.plan, local_rank))
    environment_[name] = value;
  for (const std::string& entry : given.entries) {
    const std::size_t equals = std::min(entry.find('='), entry.size());
    environment_[entry.substr(0, equals)] = entry.substr(std::min(equals + 1, entry.size()));
  }
  auto forked =
      given.descriptor < 0
          ? warm.fork(arguments, environment_, given.streams)
          : std::unexpected(std::string(warm.has_template() ? "PMI needs a socket for each rank" : ""));
  Started started;
  started.facts.forked = forked.has_value();
  if (setting_.job.use_gpus) {
    const bool sees_one = environment_.contains("MUSTER_LOCAL_RANK");
    started.facts.gpu = gpu_of(environment_, sees_one ? LocalRank(0) : local_rank);
  }
  if (forked) {
    started.process = *std::move(forked);
  } else {
    started.facts.executed_because = forked.error();
    command_.program = program;
    auto executed = execute(std::move(arguments), given);
    if (!executed) return std::unexpected(executed.error());
    started.process = *std::move(executed);
  }
  started.facts.pid = started.process.pid;
  return started;
}

AttemptRun::OrFailure<Process> AttemptRun::execute(std::vector<std::string> arguments, const Given& given) {
  command_.arguments = std::move(arguments);
  command_.streams = given.streams;
  command_.kept_fd = given.descriptor;
  command_.environment = entries_of(environment_);
  auto process = spawn(command_);
  if (!process) return failed(StartStep::kProgram, process.error());
  return *std::move(process);
}

std::expected<TemplateSpec, std::string> AttemptRun::wanted_template() const {
  if (setting_.job.warm == wire::Warm::kOff) return std::unexpected("");
  return muster::agent::wanted_template(facts_of_program(program_), setting_.context, setting_.job,
                                        setting_.plan);
}

std::expected<TemplateSpec, std::string> AttemptRun::template_for(const wire::JobSpec& job,
                                                                  const NodeContext& context,
                                                                  const wire::PrepareAttempt& likely) {
  if (job.warm == wire::Warm::kOff) return std::unexpected("");
  const auto program = find_program_of(job, search_path(context.inherited, job));
  if (!program) return std::unexpected(program.error().message());
  return muster::agent::wanted_template(facts_of_program(*program), context, job, likely);
}

}  // namespace muster::agent
