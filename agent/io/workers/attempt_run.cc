#include "agent/io/workers/attempt_run.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

#include "agent/core/output/disk_space.h"
#include "agent/io/workers/program.h"
#include "common/base/log.h"

namespace muster::agent {

namespace {

constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";
// Of each stream its pipe and its file, the order of both, and the process.
constexpr rlim_t kDescriptorsPerRank = 6;
constexpr Duration kLogsPause = std::chrono::milliseconds(50);
constexpr std::int64_t kMaxErrorFileBytes = 16 << 20;
constexpr std::size_t kMaxReportedBytes = 64 << 10;

std::unexpected<wire::AttemptRefused> refused(int exit_code, const Error& error) {
  return std::unexpected(wire::AttemptRefused{exit_code, error.message()});
}

// The shell's: 127 there is no such program, 126 it cannot be executed.
int exit_code_of(ErrorCode code) {
  if (code == ErrorCode::kNotFound) return 127;
  return code == ErrorCode::kPermission ? 126 : 125;
}

// 2 is for a path that the user can put right; want of descriptors, memory or space is not of that kind.
int exit_code_of_directory(ErrorCode code) {
  const bool path =
      code == ErrorCode::kNotFound || code == ErrorCode::kPermission || code == ErrorCode::kInvalidArgument;
  return path ? 2 : 125;
}

std::string search_path(const Environment& inherited, const wire::JobSpec& job) {
  if (const auto own = job.environment.find("PATH"); own != job.environment.end()) return own->second;
  const auto found = inherited.find("PATH");
  return found != inherited.end() ? found->second : kDefaultPath;
}

Expected<std::string> program_of(const wire::JobSpec& job, const NodeContext& context) {
  return find_program(job.command.empty() ? "" : job.command.front(), search_path(context.inherited, job),
                      job.working_directory);
}

// A worker's own file: neither a device nor a pipe may make the agent wait.
std::string read_error_file(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status{};
  if (!fd || fstat(fd.get(), &status) < 0 || !S_ISREG(status.st_mode)) return {};
  std::string text(static_cast<std::size_t>(std::min(status.st_size, kMaxErrorFileBytes)), '\0');
  const ssize_t size = pread(fd.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

// Not while the last workers' programs are being loaded, and one at a time, so that other things have their
// turn. A stream that had output or was closed meanwhile has its file.
awaitable<void> open_logs(std::vector<std::shared_ptr<Output>> outputs) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  boost::system::error_code cancelled;
  asio::steady_timer pause(executor, kLogsPause);
  co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  if (cancelled) co_return;
  for (const auto& output : outputs) {
    co_await asio::post(executor, asio::use_awaitable);
    output->prepare_log();
  }
}

}  // namespace

AttemptRun::OrRefused<std::unique_ptr<AttemptRun>> AttemptRun::open(Setting setting) {
  std::unique_ptr<AttemptRun> run(new AttemptRun(std::move(setting)));
  const wire::JobSpec& job = run->setting_.job;
  if (Status usable = run->check_directory(); !usable)
    return refused(exit_code_of_directory(usable.error().code()), usable.error());
  auto program = program_of(job, run->setting_.context);
  if (!program) return refused(exit_code_of(program.error().code()), program.error());
  run->program_ = *std::move(program);
  if (Status opened = run->open_null(); !opened) return refused(125, opened.error());
  if (Status enough = run->check_descriptors(); !enough) return refused(125, enough.error());
  if (Status opened = run->make_log_directories(); !opened)
    return refused(exit_code_of_directory(opened.error().code()), opened.error());
  // A port that the user has chosen is the user's mistake.
  if (Status opened = run->open_store(); !opened)
    return refused(job.master_port != 0 ? 2 : 125, opened.error());
  run->check_space();
  return run;
}

AttemptRun::~AttemptRun() {
  close_outputs();
}

void AttemptRun::close_outputs() {
  for (RankStreams& streams : ranks_) {
    for (Stream& stream : streams) {
      stream.output->close();
      stream.copy->end();
    }
  }
}

void AttemptRun::hurry() {
  setting_.link.set_hurry(true);
  for (const auto& output : outputs()) output->hurry();
  for (const auto& filtered : filtered_) {
    if (filtered) filtered->hurry();
  }
}

std::string AttemptRun::losses() const {
  Output::Lost all;
  for (const auto& output : outputs()) {
    const Output::Lost lost = output->lost();
    if (lost.bytes > 0) log::warning("{} bytes of {} were lost", lost.bytes, output->log_path());
    all.lines += lost.lines;
    all.waiting_bytes += lost.waiting_bytes;
  }
  for (const auto& filtered : filtered_) all.lines += filtered ? filtered->lost_lines() : 0;
  if (all.lines + all.waiting_bytes == 0) return "";
  return fmt::format("the log files of attempt {} did not take {} lines in time{}", setting_.context.attempt,
                     all.lines,
                     all.waiting_bytes == 0 ? "" : fmt::format("; {} bytes still wait", all.waiting_bytes));
}

Status AttemptRun::check_directory() const {
  const std::string& directory = setting_.job.working_directory;
  const int fd = ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  const UniqueFd owned(fd);
  if (fd < 0 || access(directory.c_str(), X_OK) < 0)
    return system_failure("cannot use the working directory " + directory, errno);
  return {};
}

Status AttemptRun::open_null() {
  null_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null_) return failure(ErrorCode::kInternal, "cannot open /dev/null: {}", std::strerror(errno));
  return {};
}

Status AttemptRun::check_descriptors() const {
  rlimit limit{};
  const auto ranks = static_cast<rlim_t>(setting_.plan.local_world_size);
  // Every rank of the job is a client of the store.
  const auto clients = static_cast<rlim_t>(setting_.plan.host_store ? setting_.plan.world_size : 0);
  const auto lowest_free = static_cast<rlim_t>(null_.get()) + 1;
  const rlim_t wanted = lowest_free + kDescriptorsPerRank * ranks + clients;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && wanted <= limit.rlim_cur) return {};
  const std::string store = clients == 0 ? "" : fmt::format(" and serve {} ranks", clients);
  return system_failure(fmt::format("cannot watch {} workers{} with {} descriptors (wanted: {})", ranks,
                                    store, limit.rlim_cur, wanted),
                        EMFILE);
}

Status AttemptRun::open_store() {
  if (!setting_.plan.host_store) return {};
  boost::system::error_code error;
  const auto address = asio::ip::make_address(setting_.plan.store_address, error);
  if (error)
    return failure(ErrorCode::kInvalidArgument, "store address '{}': not an IP address",
                   setting_.plan.store_address);
  const auto port = static_cast<std::uint16_t>(setting_.job.master_port);
  if (!setting_.job.store_on_agent) {
    auto reserved = bind_store_port(address, port);
    if (!reserved) return std::unexpected(reserved.error());
    worker_store_port_ = *std::move(reserved);
    return {};
  }
  auto store = StoreServer::open(setting_.io, {.address = address, .port = port});
  if (!store) return std::unexpected(store.error());
  store_ = *std::move(store);
  return {};
}

// Creating a rank's directory and files may take longer than starting it: ext4 passes over every inode that
// was freed in the last minutes. The attempt's directory tells whether the disk can be used, the others come
// when all workers run, or are needed.
Status AttemptRun::make_log_directories() const {
  const std::filesystem::path first = directory_of(LocalRank(0));
  if (Status made = make_directories(first.parent_path().string()); !made)
    return failure_within("cannot keep logs", std::move(made));
  if (!setting_.context.run_directory.empty()) return {};
  // Then workers leave their error files among the logs.
  for (LocalRank local_rank; local_rank.value() < setting_.plan.local_world_size;
       local_rank = local_rank.next()) {
    if (Status made = make_directories(directory_of(local_rank)); !made)
      return failure_within("cannot keep logs", std::move(made));
  }
  return {};
}

// The next rank's.
Status AttemptRun::open_streams(LocalRank local_rank) {
  std::shared_ptr<net::LogBudget> budget;
  if (const std::int64_t limit = setting_.job.log_limit_bytes; limit > 0)
    budget = std::make_shared<net::LogBudget>(static_cast<std::uint64_t>(limit));
  // Under a limit the oldest parts of either stream go, and nothing could be put in order by counting.
  std::shared_ptr<LogOrder> order;
  if (!budget) order = std::make_shared<LogOrder>(setting_.logs, directory_of(local_rank));
  auto standard = open_stream(local_rank, 1, budget, order);
  if (!standard) return std::unexpected(standard.error());
  auto error = open_stream(local_rank, 2, budget, order);
  if (!error) return std::unexpected(error.error());
  ranks_.push_back({*std::move(standard), *std::move(error)});
  return {};
}

std::string AttemptRun::directory_of(LocalRank local_rank) const {
  return rank_directory(setting_.job, setting_.context.attempt, rank_of(local_rank));
}

void AttemptRun::check_space() const {
  if (setting_.plan.agent_on_host > 0) return;  // another one has said it
  const std::pair<const char*, const std::string&> directories[] = {
      {"the log directory", setting_.job.log_directory},
      {"the checkpoint directory", setting_.job.checkpoint_directory}};
  for (const auto& [what, directory] : directories) {
    struct statvfs disk{};
    if (directory.empty() || statvfs(directory.c_str(), &disk) != 0) continue;
    const auto low =
        low_space(what, directory, {disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize});
    if (low) setting_.link.send(setting_.context.attempt, wire::AgentNotice{*low});
  }
}

Expected<AttemptRun::Stream> AttemptRun::open_stream(LocalRank local_rank, int stream,
                                                     std::shared_ptr<net::LogBudget> budget,
                                                     std::shared_ptr<LogOrder> order) {
  const auto index = static_cast<std::size_t>(local_rank.value());
  const std::vector<std::int32_t>& redirects = setting_.job.redirects;
  const bool shown = index >= redirects.size() || (redirects[index] & stream) == 0;
  auto copy = std::make_shared<TerminalCopy>(
      setting_.link, TerminalCopy::Source{setting_.context.attempt, rank_of(local_rank), local_rank, stream},
      shown);
  // Once an attempt: all logs are on one file system, and are full together.
  const auto tell = [&link = setting_.link, attempt = setting_.context.attempt,
                     told = disk_told_](const std::string& line) {
    if (!std::exchange(*told, true)) link.send(attempt, wire::AgentNotice{line});
  };
  const auto filtered = filtered_copy(stream, tell);
  const auto lines = [copy, filtered,
                      prefix = fmt::format("node{}:{}: ", setting_.context.node, rank_of(local_rank))](
                         std::string_view text) {
    copy->lines(text);
    if (filtered) filtered->add(prefix, text);
  };
  auto output =
      Output::open(setting_.io.get_executor(),
                   {.path = directory_of(local_rank) + (stream == 1 ? "/stdout.log" : "/stderr.log"),
                    .writer = setting_.logs,
                    .stream = stream,
                    .order = std::move(order),
                    .budget = std::move(budget),
                    .stall = from_ns(setting_.job.output_stall_ns)},
                   {.lines = lines,
                    .notice = tell,
                    .hold = [copy, filtered] { return copy->hold() || (filtered && filtered->hold()); },
                    .waits = [waited_at = waited_at_] { *waited_at = Clock::now(); }});
  if (!output) return std::unexpected(output.error());
  return Stream{std::move(copy), *std::move(output)};
}

// One for all ranks; null if nothing is filtered.
std::shared_ptr<FilteredCopy> AttemptRun::filtered_copy(int stream, const net::LogWriter::Trouble& notice) {
  const wire::JobSpec& job = setting_.job;
  const std::vector<std::string>& texts = stream == 1 ? job.stdout_filters : job.stderr_filters;
  auto& copy = filtered_.at(static_cast<std::size_t>(stream - 1));
  if (!copy && !texts.empty()) {
    copy = std::make_shared<FilteredCopy>(
        FilteredCopy::File{.path = fmt::format("{}/attempt_{}/filtered_{}.log", job.log_directory,
                                               setting_.context.attempt, stream == 1 ? "stdout" : "stderr"),
                           .writer = setting_.logs,
                           .stall = from_ns(job.output_stall_ns)},
        texts, notice);
  }
  return copy;
}

AttemptRun::OrRefused<AttemptRun::Started> AttemptRun::start(LocalRank local_rank,
                                                             const wire::StartWorkers& start,
                                                             WarmStart& warm) {
  const auto index = static_cast<std::size_t>(local_rank.value());
  if (index == ranks_.size()) {
    if (Status opened = open_streams(local_rank); !opened) return refused(125, opened.error());
  }
  const auto& streams = ranks_.at(index);
  const std::array<int, 3> ends = {null_.get(), streams[0].output->worker_end(),
                                   streams[1].output->worker_end()};
  std::vector<std::string> arguments = arguments_of(setting_.job.command, local_rank);
  if (environment_.empty()) {
    environment_ = common_environment(setting_.context, setting_.job, setting_.plan, start);
    command_ = {.program = program_,
                .arguments = {},
                .environment = entries_of(environment_),
                .working_directory = setting_.job.working_directory,
                .descriptor_limit = setting_.descriptor_limit};
  }
  const Environment own = rank_environment(setting_.context, setting_.job, setting_.plan, local_rank);
  for (const auto& [name, value] : own) environment_[name] = value;
  auto forked = warm.fork(arguments, environment_, ends);
  Started started{.process = {}, .forked = forked.has_value(), .executed_because = {}, .gpu = {}};
  if (setting_.job.use_gpus) {
    started.gpu = gpu_of(environment_, setting_.job.virtual_local_rank ? LocalRank(0) : local_rank);
  }
  if (forked) {
    started.process = *std::move(forked);
  } else {
    started.executed_because = forked.error();
    auto executed = execute(std::move(arguments), own, ends);
    if (!executed) return std::unexpected(executed.error());
    started.process = *std::move(executed);
  }
  for (const Stream& stream : streams) {
    stream.output->worker_has_its_end();
    setting_.tasks.spawn(stream.output->read_all());
  }
  const bool last = local_rank.value() + 1 == setting_.plan.local_world_size;
  if (last) setting_.tasks.spawn(open_logs(outputs()));
  return started;
}

std::vector<std::shared_ptr<Output>> AttemptRun::outputs() const {
  std::vector<std::shared_ptr<Output>> all;
  for (const RankStreams& streams : ranks_) {
    for (const Stream& stream : streams) all.push_back(stream.output);
  }
  return all;
}

AttemptRun::OrRefused<Process> AttemptRun::execute(std::vector<std::string> arguments, const Environment& own,
                                                   const std::array<int, 3>& streams) {
  command_.arguments = std::move(arguments);
  command_.streams = streams;
  command_.environment.resize(environment_.size() - own.size());
  for (std::string& entry : entries_of(own)) command_.environment.push_back(std::move(entry));
  auto process = spawn(command_);
  if (!process) return refused(exit_code_of(process.error().code()), process.error());
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
  const auto program = program_of(job, context);
  if (!program) return std::unexpected(program.error().message());
  return muster::agent::wanted_template(facts_of_program(*program), context, job, likely);
}

wire::WorkerExited AttemptRun::last_words(LocalRank local_rank) {
  RankStreams& streams = ranks_.at(static_cast<std::size_t>(local_rank.value()));
  for (Stream& stream : streams) {
    stream.output->finish();
    stream.copy->end();
  }
  wire::WorkerExited words;
  words.error_file = keep_error_file(rank_of(local_rank));
  const LastLines& errors = streams[1].output->last_lines();
  words.last_lines = errors.empty() ? streams[0].output->last_lines().lines() : errors.lines();
  return words;
}

std::string AttemptRun::keep_error_file(Rank rank) const {
  const std::string left = error_file(setting_.context, setting_.job, rank);
  std::string text = read_error_file(left);
  if (text.empty()) return text;
  const std::string directory = rank_directory(setting_.job, setting_.context.attempt, rank);
  if (!left.starts_with(directory)) {
    const auto file =
        setting_.logs.add(std::make_unique<net::LogParts>(directory + "/error.json", UniqueFd(), nullptr),
                          [](const std::string& what) { log::warning("{}", what); });
    file->put(text);
    file->close();
    unlink(left.c_str());
  }
  text.resize(std::min(text.size(), kMaxReportedBytes));
  return text;
}

bool AttemptRun::has_rank(Rank rank) const {
  const int first = setting_.plan.first_rank.value();
  return rank.value() >= first && rank.value() < first + setting_.plan.local_world_size;
}

}  // namespace muster::agent
