#include "runtime/comm/mpi/engine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <future>
#include <pmix.h>
#include <sched.h>
#include <stdexcept>
#include <sys/prctl.h>

#include "common/base/quiet_thread.h"

namespace muster::mpi {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::microseconds kPolls{50};  // the engine's thread only yields for this long
// If a thread of the program waits in help(), it does the work of the engine's thread in the meantime. If it
// sees no progress for this long, it leaves the work to the engine's thread. This time is long, because the
// thread has nothing else to do, and because a piece that is being sent shows no progress until it is
// complete.
constexpr std::chrono::microseconds kHelps{5000};
// A thread in help() tests the requests this many times before it does something else. At each test, MPI
// gives the core to another thread for a moment, because set_defaults() has set that option of MPI.
constexpr int kLooksOfHelper = 16;
constexpr std::chrono::milliseconds kLongestRest{1};
constexpr std::chrono::milliseconds kBetweenLooks{10};
constexpr std::chrono::milliseconds kStillness{1000};  // a rank that waits this long tells where it waits
constexpr std::chrono::milliseconds kLastMoment{1000};
constexpr int kComeLimit = 5;  // seconds
constexpr const char* kPmix = "libpmix.so.2";
constexpr std::chrono::milliseconds kAnswer{2000};  // for the store's answer about missing ranks
constexpr std::int64_t kPiecesUnderWay = 2;

// True on the thread that has the turn, that is, the right to make MPI calls (engine.h). This thread must not
// take the turn again.
thread_local bool has_turn = false;
struct InTurn {
  InTurn() { has_turn = true; }
  InTurn(const InTurn&) = delete;
  InTurn& operator=(const InTurn&) = delete;
  ~InTurn() { has_turn = false; }
};

// Sets options of MPI that the user has not set. Call it before MPI starts threads.
void set_defaults() {
  // MPI_Init and similar functions wait in a loop and use a core all the time. This option lets them yield
  // the core in the loop, because there may be more ranks than processors.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  // A process that was started without a launcher has a world with only this process. It does not need MPI's
  // daemon.
  setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
}

void require(int code, const char* call) {
  if (code != MPI_SUCCESS) throw std::runtime_error(fmt::format("{}: {}", call, error_text(code)));
}

// Runs at the start of MPI_Finalize if the program has initialized MPI itself.
int leave_at_finalize(MPI_Comm, int, void* function, void*) {
  (*static_cast<std::function<void()>*>(function))();
  return MPI_SUCCESS;
}

}  // namespace

std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return fmt::format("error {}", code);
  return std::string(text, static_cast<std::size_t>(length));
}

Engine& Engine::of_process() {
  static auto* one = new Engine;
  return *one;
}

Engine::Engine() {
  set_defaults();
  thread_ = start_quiet_thread("muster-mpi", [this](const std::stop_token&) { run(); });
  on_exit([](int status, void*) { of_process().leave(status); }, nullptr);
}

void Engine::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  inbox_.push_back({std::move(task), nullptr});
  wake();
}

// The caller must hold mutex_.
void Engine::wake() {
  awake_ = true;
  posted_.notify_one();
}

void Engine::post_and_wait(const std::function<void()>& task, std::chrono::milliseconds timeout,
                           const std::string& late) {
  const auto ended = std::make_shared<std::promise<void>>();
  auto future = ended->get_future();
  if (const std::lock_guard lock(mutex_); leaving_)
    throw std::runtime_error("backend 'mpi': the process is ending");
  post([task, ended] {
    try {
      task();
      ended->set_value();
    } catch (...) {
      ended->set_exception(std::current_exception());
    }
  });
  if (future.wait_for(timeout) != std::future_status::ready) throw std::runtime_error(late);
  future.get();
}

// Ends the engine's thread, and waits until it has ended. But if the thread is in a call that may never
// return, leave() does not wait. If `status` is not 0, the process ends with an error. Then the thread does
// not call MPI_Finalize(), which would wait for the other ranks. They may be in another call that waits for
// this rank.
void Engine::leave(int status) {
  std::unique_lock lock(mutex_);
  leaving_ = true;
  if (status != 0) broken_ = fails_ = true;
  wake();
  while (!gone_ && !forming_) gone_changed_.wait_for(lock, std::chrono::milliseconds(100));
  lock.unlock();
  if (!thread_.joinable()) return;
  if (forming_)
    thread_.detach();
  else
    thread_.join();
}

void Engine::form(const std::function<void()>& task, std::chrono::milliseconds timeout,
                  const std::string& late) {
  post_and_wait(
      [task, this] {
        forming_ = true;
        const std::shared_ptr<void> formed(nullptr, [this](void*) { forming_ = false; });
        task();
      },
      timeout, late);
}

void Engine::enter(const WorldPlace& place, std::chrono::milliseconds timeout) {
  form(
      [place, this] {
        start_mpi();
        require_world(place);
      },
      timeout,
      fmt::format("backend 'mpi': MPI did not start within {} ms: not all of its ranks have joined",
                  timeout.count()));
}

void Engine::open(const ChannelPtr& channel, const std::vector<int>& ranks,
                  std::chrono::milliseconds timeout) {
  form(
      [=, this] {
        ++open_count_;
        make_comm(*channel, ranks);
      },
      timeout,
      fmt::format("backend 'mpi': a group of {} ranks was not created within {} ms", ranks.size(),
                  timeout.count()));
}

void Engine::submit(const OperationPtr& operation, bool awaited) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      inbox_.push_back({nullptr, operation});
      if (!awaited || leaving_ || has_turn) wake();
      return;
    }
  }
  operation->end(fmt::format("{}: MPI has been finalized in this process", operation->what()));
}

void Engine::give_up(const ChannelPtr& channel, const std::string& reason) {
  post([=, this] { break_channel(channel, reason); });
}

void Engine::close(const ChannelPtr& channel) {
  post([=, this] {
    --open_count_;
    const bool idle =
        std::ranges::none_of(active_, [&](const auto& each) { return each->channel == channel; });
    for (MPI_Comm* const each : {&channel->parts, &channel->comm})
      if (idle && channel->broken.empty() && *each != MPI_COMM_NULL) MPI_Comm_free(each);
    channel->broken = "the group has been shut down";
  });
}

// A thread in help() has a Helper. While there is a Helper, the engine's thread sleeps. When the last one is
// gone, the engine's thread takes over the remaining work.
class Engine::Helper {
 public:
  explicit Helper(Engine& engine) : engine_(engine) {
    const std::lock_guard lock(engine_.mutex_);
    ++engine_.helper_count_;
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  // While there was a Helper, the engine's thread may have gone to sleep. If there is still work, this
  // destructor wakes it. The lock keeps the engine's thread from going to sleep at the same time.
  ~Helper() {
    const std::lock_guard lock(engine_.mutex_);
    if (--engine_.helper_count_ == 0 && (engine_.has_active_ || !engine_.inbox_.empty())) engine_.wake();
  }

 private:
  Engine& engine_;
};

void Engine::help(const std::atomic<bool>& done, std::optional<Time> end) {
  if (has_turn || done) return;
  const Helper helper(*this);
  Time now = steady_clock::now();
  Time moved_at = now;
  while (!done) {
    const auto moved = help_once(now);
    if (!moved) break;
    if (*moved) moved_at = now;
    if (now - moved_at >= kHelps || (end && now >= *end)) break;
  }
}

// Works once on the operations, if no other thread does so. Returns true if an operation has made progress,
// and false if none has. Returns nothing if only the engine's thread can continue. Sets `now` to the current
// time.
std::optional<bool> Engine::help_once(Time& now) {
  const std::unique_lock turn(turn_, std::try_to_lock);
  if (!turn) {
    sched_yield();
    now = steady_clock::now();
    return forming_ ? std::nullopt : std::optional(false);
  }
  const InTurn in_turn;
  bool some_begun = false;
  bool others_posted = false;
  while (const OperationPtr next = next_posted(others_posted)) {
    begin(next);
    some_begun = true;
  }
  if (others_posted) return std::nullopt;
  return look(some_begun, kLooksOfHelper, now);
}

void Engine::run() {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // because a rest can be shorter than the default slack, 50 us
  moved_at_ = steady_clock::now();
  while (const auto moved_at = take_turn()) rest(*moved_at);
  const std::lock_guard lock(mutex_);
  gone_ = true;
  gone_changed_.notify_all();
}

// Works once on the operations. Returns the time of the last progress. If the engine's thread should end,
// finalizes MPI and returns nothing.
std::optional<Engine::Time> Engine::take_turn() {
  const std::lock_guard turn(turn_);
  const InTurn in_turn;
  Time now;
  look(perform_posted(), 1, now);
  if (!ends_now(now)) return moved_at_;
  finalize();
  return std::nullopt;
}

bool Engine::look(bool some_posted, int times, Time& now) {
  bool some_ended = test();
  for (int looks = 1; !some_ended && looks < times; ++looks) some_ended = test();
  now = steady_clock::now();
  if (some_posted || some_ended) moved_at_ = now;
  if (now - looked_at_ >= kBetweenLooks) look_at_clock(now);
  has_active_ = !active_.empty();
  return some_posted || some_ended;
}

// Returns true if the engine's thread should end now. Operations may still be unfinished. If all groups are
// closed and nothing has failed, these operations first get the time kLastMoment to end.
bool Engine::ends_now(Time now) {
  const std::lock_guard lock(mutex_);
  if (!leaving_ || !inbox_.empty()) return false;
  if (active_.empty()) return true;
  if (open_count_ == 0 && !broken_ && now - moved_at_ < kLastMoment) return false;
  broken_ = true;
  return true;
}

void Engine::rest(Time moved_at) {
  const auto waited = steady_clock::now() - moved_at;
  std::unique_lock lock(mutex_);
  if (!has_active_ || (helper_count_ > 0 && !leaving_)) {
    posted_.wait(lock, [this] { return awake_; });
  } else if (waited < kPolls) {
    lock.unlock();
    sched_yield();
    lock.lock();
  } else {
    const auto length = std::min<steady_clock::duration>(waited / 16, kLongestRest);
    posted_.wait_for(lock, length, [this] { return awake_; });
  }
  awake_ = false;
}

bool Engine::perform_posted() {
  std::deque<Posted> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(inbox_);
  }
  for (const auto& [task, operation] : all) {
    if (operation != nullptr)
      begin(operation);
    else
      task();
  }
  return !all.empty();
}

// Takes the next operation out of the inbox and returns it. If the first entry of the inbox is a task, or if
// the process is ending, only the engine's thread can continue. Then this function sets `others_posted` and
// returns null.
OperationPtr Engine::next_posted(bool& others_posted) {
  const std::lock_guard lock(mutex_);
  others_posted = leaving_ || (!inbox_.empty() && inbox_.front().operation == nullptr);
  if (others_posted || inbox_.empty()) return nullptr;
  OperationPtr operation = std::move(inbox_.front().operation);
  inbox_.pop_front();
  return operation;
}

void Engine::start_mpi() {
  if (left_) throw std::runtime_error("backend 'mpi': MPI has been finalized in this process");
  if (started_) return;
  int done = 0;
  MPI_Finalized(&done);
  if (done != 0) throw std::runtime_error("backend 'mpi': MPI has been finalized in this process");
  MPI_Initialized(&done);
  int level = MPI_THREAD_SINGLE;
  if (done != 0) {
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE)
      throw std::runtime_error(
          "backend 'mpi': the program has started MPI without MPI_THREAD_MULTIPLE: "
          "it must request that from MPI_Init_thread, because groups make calls on a thread of their own");
    auto* stop = new std::function<void()>([this] { leave(0); });
    int key = MPI_KEYVAL_INVALID;
    require(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave_at_finalize, &key, nullptr),
            "MPI_Comm_create_keyval");
    require(MPI_Comm_set_attr(MPI_COMM_SELF, key, stop), "MPI_Comm_set_attr");
  } else {
    require(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    owns_mpi_ = true;
    if (level < MPI_THREAD_SERIALIZED)
      throw std::runtime_error("backend 'mpi': this MPI does not support MPI_THREAD_SERIALIZED");
  }
  started_ = true;
}

void Engine::finalize() {
  left_ = true;
  if (!started_ || !owns_mpi_) return;
  if (!broken_ && open_count_ == 0 && have_all_come())
    MPI_Finalize();
  else if (!fails_)
    say_goodbye();
}

// Returns true if all ranks call this function within kComeLimit. Then no rank has given up a group, so
// MPI_Finalize() will not wait forever. Returns true also if PMIx is not loaded, because then it cannot be
// checked.
bool Engine::have_all_come() {
  void* const library = dlopen(kPmix, RTLD_NOW | RTLD_NOLOAD);
  auto* const fence =
      library == nullptr ? nullptr : reinterpret_cast<decltype(&PMIx_Fence)>(dlsym(library, "PMIx_Fence"));
  if (fence == nullptr) return true;
  pmix_info_t limit{};
  std::strncpy(limit.key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN);
  limit.value.type = PMIX_INT;
  limit.value.data.integer = kComeLimit;
  return fence(nullptr, 0, &limit, 1) == PMIX_SUCCESS;
}

// Tells the launcher that this rank ends without an error, although a group was given up. Such a rank cannot
// wait in MPI_Finalize(). Without this message, the launcher would think that the rank has crashed.
void Engine::say_goodbye() {
  void* const library = dlopen(kPmix, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return;
  auto* const is_initialized =
      reinterpret_cast<decltype(&PMIx_Initialized)>(dlsym(library, "PMIx_Initialized"));
  auto* const finalize = reinterpret_cast<decltype(&PMIx_Finalize)>(dlsym(library, "PMIx_Finalize"));
  constexpr int kMostOften = 8;  // so that the loop ends in any case
  for (int times = 0; is_initialized != nullptr && finalize != nullptr && times < kMostOften; ++times) {
    if (is_initialized() == 0) return;
    finalize(nullptr, 0);
  }
}

void Engine::require_world(const WorldPlace& place) {
  WorldPlace found;
  MPI_Comm_rank(MPI_COMM_WORLD, &found.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &found.size);
  if (found.rank != place.rank || found.size != place.size)
    throw std::runtime_error(
        fmt::format("backend 'mpi': MPI_COMM_WORLD is not the job: this is rank {} of {} there, "
                    "but rank {} of {} in the job; start the job with launch --mpi pmix",
                    found.rank, found.size, place.rank, place.size));
}

void Engine::make_comm(Channel& channel, const std::vector<int>& ranks) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  require(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  require(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &members), "MPI_Group_incl");
  require(MPI_Comm_create_group(MPI_COMM_WORLD, members, 0, &channel.comm), "MPI_Comm_create_group");
  require(MPI_Comm_set_errhandler(channel.comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (channel.has_parts) require(MPI_Comm_dup(channel.comm, &channel.parts), "MPI_Comm_dup");
  MPI_Group_free(&members);
  MPI_Group_free(&world);
}

void Engine::begin(const OperationPtr& operation) {
  Channel& channel = *operation->channel;
  if (operation->collective) operation->number = ++channel.entered;
  if (!channel.broken.empty()) {
    operation->end(fmt::format("{}: {}", operation->what(), channel.broken));
    return;
  }
  operation->since = steady_clock::now();
  active_.push_back(operation);
  if (operation->collective) {
    channel.due.push_back(operation);
    start_due(channel);
    return;
  }
  while (operation->started < operation->piece_count)
    if (!start_piece(operation)) return;
}

// Starts pieces of the collectives in `due`. If the first collective in `due` has no pieces, it ends.
void Engine::start_due(Channel& channel) {
  while (!channel.due.empty()) {
    const OperationPtr next = channel.due.front();
    while (next->started < next->piece_count) {
      if (next->started - next->ended == kPiecesUnderWay) return;
      if (!start_piece(next)) return;
    }
    channel.due.pop_front();
    if (next->piece_count == 0) end(next, "");
  }
}

bool Engine::start_piece(const OperationPtr& operation) {
  more_.clear();
  const std::int64_t piece = operation->started;
  const int code = operation->start(piece, more_);
  if (code == MPI_SUCCESS || !more_.empty()) ++operation->started;
  return add_requests(operation, piece, code);
}

// Adds the requests in more_.
bool Engine::add_requests(const OperationPtr& operation, std::int64_t piece, int code) {
  operation->request_count += static_cast<std::int64_t>(more_.size());
  for (MPI_Request handle : more_) {
    requests_.push_back({operation, piece});
    handles_.push_back(handle);
  }
  if (code == MPI_SUCCESS) return true;
  if (operation->collective)
    break_channel(operation->channel, error_text(code));
  else
    end(operation, error_text(code));
  return false;
}

bool Engine::test() {
  if (handles_.empty()) return false;
  const std::size_t count = handles_.size();
  int ended_count = 0;
  which_.resize(count);
  statuses_.resize(count);
  const int code =
      MPI_Testsome(static_cast<int>(count), handles_.data(), &ended_count, which_.data(), statuses_.data());
  if (ended_count <= 0) return false;
  // When an operation ends, request_ended() can start other operations, and these append their requests to
  // requests_. `ended` takes the memory of just_ended_, so that no new memory is allocated. This is safe,
  // because request_ended() does not call test().
  auto ended = std::exchange(just_ended_, {});
  for (int each = 0; each < ended_count; ++each) {
    const auto index = static_cast<std::size_t>(which_[static_cast<std::size_t>(each)]);
    MPI_Status status = statuses_[static_cast<std::size_t>(each)];
    if (code != MPI_ERR_IN_STATUS) status.MPI_ERROR = MPI_SUCCESS;
    ended.emplace_back(std::exchange(requests_[index], {}), status);
  }
  std::size_t kept = 0;
  for (std::size_t each = 0; each < count; ++each) {
    if (requests_[each].operation == nullptr) continue;
    requests_[kept] = std::move(requests_[each]);
    handles_[kept++] = handles_[each];
  }
  requests_.resize(kept);
  handles_.resize(kept);
  for (const auto& [request, status] : ended) request_ended(request, status);
  ended.clear();
  just_ended_ = std::move(ended);
  return true;
}

void Engine::request_ended(const Request& request, const MPI_Status& status) {
  const OperationPtr& operation = request.operation;
  --operation->request_count;
  operation->status = status;
  if (operation->is_over) return;  // its group has just been given up
  more_.clear();
  bool is_over = false;
  const int code =
      status.MPI_ERROR != MPI_SUCCESS ? status.MPI_ERROR : operation->go_on(request.piece, more_, is_over);
  if (!add_requests(operation, request.piece, code) || !is_over) return;
  if (++operation->ended == operation->piece_count) end(operation, "");
  start_due(*operation->channel);
}

void Engine::end(const OperationPtr& operation, const std::string& error) {
  operation->is_over = true;
  active_.remove(operation);
  if (operation->request_count > 0) {
    broken_ = true;
    abandoned_.push_back(operation);
  }
  if (error.empty()) return operation->end(error);
  const std::string what = operation->what();
  operation->end(error.starts_with(what) ? error : fmt::format("{}: {}", what, error));
}

void Engine::break_channel(const ChannelPtr& channel, const std::string& reason) {
  if (!channel->broken.empty()) return;
  channel->broken = reason;
  channel->due.clear();
  std::vector<OperationPtr> of_it;
  for (const OperationPtr& each : active_)
    if (each->channel == channel) of_it.push_back(each);
  for (std::size_t each = 0; each < requests_.size();) {
    if (requests_[each].operation->channel != channel) {
      ++each;
      continue;
    }
    requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(each));
    handles_.erase(handles_.begin() + static_cast<std::ptrdiff_t>(each));
  }
  for (const OperationPtr& each : of_it) end(each, reason);
}

void Engine::look_at_clock(Time now) {
  looked_at_ = now;
  const std::vector<OperationPtr> all(active_.begin(), active_.end());
  for (const OperationPtr& each : all) {
    Channel& channel = *each->channel;
    if (!channel.broken.empty()) continue;
    const auto waited = now - each->since;
    if (each->collective && channel.told < each->number &&
        waited >= std::min<steady_clock::duration>(kStillness, each->timeout / 4)) {
      channel.told = channel.entered;
      channel.tell(channel.told);
    }
    if (waited < each->timeout) continue;
    const std::string late =
        fmt::format("{} has not ended within {} ms", each->what(), each->timeout.count());
    if (each->collective && !each->asked_at) {
      each->asked_at = now;
      channel.missing(each->number, [this, late, channel = each->channel](const std::string& who) {
        give_up(channel, who.empty() ? late : late + ": " + who);
      });
    } else if (!each->collective || now - *each->asked_at >= kAnswer) {
      break_channel(each->channel, late);
    }
  }
}

}  // namespace muster::mpi
