#include "agent/io/mpi/local_mpi_host.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <utility>

#include "agent/core/mpi/lone_ranks.h"
#include "agent/io/mpi/mapped_files.h"
#include "agent/io/mpi/segments.h"
#include "agent/io/workers/program.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/wire/mpi_program.h"

namespace muster::agent {

namespace {

// Pauses of look_for_lone_ranks().
constexpr Duration kFirstLook = std::chrono::milliseconds(100);
constexpr Duration kLastLook = std::chrono::minutes(1);

wire::Mpi mpi_of_job(const wire::JobSpec& job) {
  if (job.mpi != wire::Mpi::kAuto) return job.mpi;
  const auto program = find_program_of(job, search_path(own_environment(), job));
  if (!program) return wire::Mpi::kNone;
  const UniqueFd file(open(program->c_str(), O_RDONLY | O_CLOEXEC));
  return wire::mpi_of_program(reader_of(file));
}

// `rank_counts` has the number of ranks of each node of the attempt, in the order of the nodes. Returns the
// index of the node whose first rank is `first_rank`.
std::size_t place_of(Rank first_rank, const std::vector<std::int32_t>& rank_counts) {
  std::size_t place = 0;
  for (std::int32_t before = 0; place < rank_counts.size() && before < first_rank.value(); ++place)
    before += rank_counts[place];
  return place;
}

}  // namespace

LocalMpiHost::~LocalMpiHost() {
  close();
  if (pmix_ != nullptr) pmix_->end();
}

std::expected<void, StartFailure> LocalMpiHost::open(const wire::JobSpec& job, const OpenAttempt& attempt) {
  context_ = {.kind = mpi_of_job(job), .segments = {}};
  attempt_ = attempt.attempt;
  plan_ = attempt.plan;
  if (context_.kind == wire::Mpi::kNone) {
    looks_for_lone_ranks_ =
        job.mpi == wire::Mpi::kAuto && plan_.world_size > 1 && plan_.first_rank == Rank(0);
    return {};
  }
  job_id_ = job.job_id;
  setting_.guardian.guard_segments(setting_.incarnation);
  // If the directory cannot be made, the MPI libraries use /dev/shm itself, or pass data in another way.
  if (auto segments = make_segments_directory(owner(), attempt.attempt))
    context_.segments = *std::move(segments);
  else
    log::warning("{}", segments.error().message());
  const Status served = serve();
  if (!served) return std::unexpected(StartFailure{StartStep::kResources, served.error()});
  return {};
}

Status LocalMpiHost::serve() {
  const std::size_t place = place_of(plan_.first_rank, plan_.rank_counts);
  if (place >= plan_.rank_counts.size() || plan_.rank_counts[place] != plan_.local_world_size)
    return failure(ErrorCode::kInternal,
                   "the launcher did not say which rank runs on which node; MPI needs to know");
  return context_.kind == wire::Mpi::kPmix ? serve_pmix() : serve_pmi();
}

Status LocalMpiHost::serve_pmix() {
  const auto loaded = Pmix::load();
  if (!loaded) return std::unexpected(loaded.error());
  pmix_ = *loaded;
  if (run_directory_.empty()) return failure(ErrorCode::kInternal, "PMIx has no directory for its files");
  const std::string directory = run_directory_ + "/pmix";
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return system_failure("cannot make the directory " + directory, errno);
  return pmix_->open({.name = world_name(),
                      .directory = directory,
                      .rank_counts = plan_.rank_counts,
                      .own = place_of(plan_.first_rank, plan_.rank_counts)},
                     *this);
}

Status LocalMpiHost::serve_pmi() {
  auto server =
      PmiServer::open(setting_.io.get_executor(), plan_, world_name(),
                      {.asked = [this](const wire::MpiAsked& asked) { listener_->mpi_asked(asked); },
                       .remarked = [this](const std::string& what) { setting_.remark(what); },
                       .aborted = [this](LocalRank rank) { listener_->mpi_aborted(rank); },
                       .all_in_barrier = [this] { in_fence(); }});
  if (!server) return std::unexpected(server.error());
  pmi_ = *std::move(server);
  return {};
}

void LocalMpiHost::asked(wire::MpiAsked asked, std::optional<std::chrono::seconds> limit) {
  asio::post(setting_.io, [this, attempt = attempt_, asked = std::move(asked), limit] {
    if (attempt != attempt_ || context_.kind == wire::Mpi::kNone) return;
    if (asked.verb == wire::MpiVerb::kFence) in_fence();
    if (limit) withdraw_after(*limit, asked);
    listener_->mpi_asked(asked);
  });
}

// If the launcher does not answer the fence within the limit, asks it to withdraw the fence. The launcher
// answers this, too. If its answer to the fence itself was already on its way, the agent gets two answers,
// and ignores the second one.
void LocalMpiHost::withdraw_after(std::chrono::seconds limit, const wire::MpiAsked& fence) {
  asio::steady_timer& timer = limits_.emplace(fence.number, setting_.io).first->second;
  timer.expires_after(limit);
  timer.async_wait([this, attempt = attempt_, number = fence.number,
                    key = fence.key](const boost::system::error_code& error) {
    if (error || attempt != attempt_ || limits_.erase(number) == 0) return;
    listener_->mpi_asked({.verb = wire::MpiVerb::kWithdraw, .number = number, .key = key});
  });
}

void LocalMpiHost::remarked(std::string what) {
  asio::post(setting_.io, [this, what = std::move(what)] { setting_.remark(what); });
}

void LocalMpiHost::hear(const wire::MpiTold& told) {
  if (pmi_) return pmi_->hear(told);
  if (told.verb == wire::MpiVerb::kAnswer) limits_.erase(told.number);
  if (context_.kind == wire::Mpi::kPmix && pmix_ != nullptr) pmix_->hear(told);
}

// The libraries make their memory in MPI_Init, before they exchange addresses. So a rank that is killed later
// has been in a fence with its memory. When a rank fails, the others still run for a moment.
void LocalMpiHost::in_fence() {
  constexpr int kMostInitFences = 8;  // more fences than MPI_Init has
  if (++fence_count_ <= kMostInitFences) note_segments();
}

void LocalMpiHost::note_segments() {
  if (context_.segments.empty()) return;
  for (const auto& [rank, process] : processes_)
    link_segments(context_.segments, files_mapped_by(with_descendants(process), is_segment_of_mpi));
}

// Looks again and again, with longer and longer pauses, because nobody tells when the rank calls MPI_Init.
// One rank is enough. The function looks at the rank's own process only: a descendant can be an mpirun's
// rank.
void LocalMpiHost::look_for_lone_ranks(Duration pause) {
  lookout_.expires_after(pause);
  lookout_.async_wait([this, pause](const boost::system::error_code& error) {
    if (error) return;  // this object may be gone
    const auto rank = processes_.find(LocalRank(0));
    if (rank == processes_.end()) return;
    const std::string remark =
        remark_on_lone_ranks(files_mapped_by({rank->second}, tells_of_mpi), plan_.world_size);
    if (!remark.empty()) return setting_.remark(remark);
    if (pause < kLastLook) look_for_lone_ranks(pause + pause / 4);
  });
}

void LocalMpiHost::rank_runs(LocalRank rank, pid_t process) {
  if (pmi_) pmi_->rank_runs(rank);
  processes_[rank] = process;
  if (looks_for_lone_ranks_ && rank == LocalRank(0)) look_for_lone_ranks(kFirstLook);
}

std::string LocalMpiHost::fault_of(LocalRank rank, wire::WorkerExited& exited) {
  const bool is_first = processes_.size() == static_cast<std::size_t>(plan_.local_world_size);
  processes_.erase(rank);
  if (is_first && (exited.exit_code != 0 || exited.signal != 0)) note_segments();
  if (pmi_) return pmi_->fault_of(rank, exited);
  return context_.kind == wire::Mpi::kPmix ? pmix_->fault_of(plan_.rank_of(rank), exited) : "";
}

Expected<std::vector<std::string>> LocalMpiHost::entries_for(LocalRank rank) const {
  if (context_.kind == wire::Mpi::kPmix) return pmix_->entries_for(plan_.rank_of(rank));
  if (pmi_) return std::vector{fmt::format("PMI_FD={}", pmi_->for_rank(rank))};
  return {};
}

void LocalMpiHost::close() {
  lookout_.cancel();
  looks_for_lone_ranks_ = false;
  processes_.clear();
  if (context_.kind == wire::Mpi::kNone) return;
  if (const auto pmi = std::exchange(pmi_, nullptr)) pmi->close();
  if (pmix_ != nullptr) pmix_->close();
  limits_.clear();
  fence_count_ = 0;
  context_ = {};
  remove_segments(owner());
}

}  // namespace muster::agent
