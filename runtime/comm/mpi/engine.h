// Makes a process's MPI calls: starts requested operations, and advances those in progress.
//
// Threads. The engine's own thread makes the calls. While a thread of the program waits for its operation,
// that thread makes them instead, which saves two thread switches. Only one thread at a time makes calls: it
// has the turn. So the engine initializes MPI with MPI_THREAD_SERIALIZED, at first use. A program that has
// initialized MPI itself must have got MPI_THREAD_MULTIPLE. Any thread can call the public functions.
//
// Waiting. One engine serves all groups, and never blocks in an operation. The thread that has the turn polls
// for a while. Then the engine's thread takes over. Between two polls, it sleeps for a sixteenth of its
// waiting time so far, at most a millisecond. So a waiting rank takes almost no processor time from others.
//
// Errors. Open MPI cannot cancel an operation with a dead peer. If an operation's deadline passes, the engine
// gives up the operation's group. Every operation in the group then ends with the reason. Memory that MPI can
// still write to is kept, and MPI is not finalized at the end of the process.
//
// This code does not use torch.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mpi.h>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace muster::mpi {

struct Operation;
using OperationPtr = std::shared_ptr<Operation>;

// The shared state of one group's operations.
struct Channel {
  // Tells the other ranks that this rank waits in the collective `number` without progress. Runs on the
  // thread that makes the MPI calls, so it must return at once.
  std::function<void(std::int64_t number)> tell;
  // Finds the members that have not said that they wait in the collective `number`. Calls `answer` with a
  // text that names these members, on any thread. The text is "" if there are none, or if they are unknown.
  std::function<void(std::int64_t number, std::function<void(std::string)> answer)> missing;

  bool has_parts = false;  // whether `parts` exists

  // Only the engine uses the members below.
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm parts = MPI_COMM_NULL;  // for the messages of Muster's own collectives (direct.h)
  std::string broken;              // why the group cannot be used any more
  std::int64_t entered = 0;        // number of collectives begun
  std::int64_t told = 0;           // the newest number given to `tell`
  // Collectives with pieces to start: all ranks must start them in the same order.
  std::deque<OperationPtr> due;
};
using ChannelPtr = std::shared_ptr<Channel>;

using Requests = std::vector<MPI_Request>;

// One call of a group. If the group is given up, the engine can keep the call and its memory forever.
struct Operation {
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;
  // These functions run on the thread that makes the MPI calls. The first two return MPI's codes.
  // - `start` begins a piece and appends at least one request.
  // - `go_on` is called after a request of a piece has ended. It appends the next requests, or sets
  //   piece_is_over if there are none.
  // - `end` is called once, without an error if all pieces have ended.
  virtual int start(std::int64_t piece, Requests& more) = 0;
  virtual int go_on(std::int64_t /*piece*/, Requests& /*more*/, bool& piece_is_over) {
    piece_is_over = true;
    return MPI_SUCCESS;
  }
  virtual void end(const std::string& error) = 0;
  // Returns "all_reduce of Float [4]", for errors only.
  virtual std::string what() const = 0;

  ChannelPtr channel;
  bool collective = true;
  std::chrono::milliseconds timeout{};
  // The number of pieces. They start in order; at most two pieces of a collective are in progress.
  std::int64_t piece_count = 1;

  // Only the engine uses the members below.
  std::int64_t number = 0;  // among the group's collectives
  std::int64_t started = 0;
  std::int64_t ended = 0;
  std::int64_t request_count = 0;  // unfinished requests
  bool is_over = false;
  MPI_Status status{};  // of the last request
  std::chrono::steady_clock::time_point since;
  // when the engine asked which ranks are missing
  std::optional<std::chrono::steady_clock::time_point> asked_at;
};

// This process's place in its job. MPI_COMM_WORLD must have the same rank and size.
struct WorldPlace {
  int rank = 0;
  int size = 1;
};

class Engine {
 public:
  // Returns the engine, which exists until the process ends. At the end, it finalizes MPI if every channel
  // was closed in good order.
  static Engine& of_process();

  // Initializes MPI, which waits for all ranks of its world. Throws std::runtime_error if MPI cannot be used,
  // if MPI's world is not the job, or if the other ranks do not come in time.
  void enter(const WorldPlace& place, std::chrono::milliseconds timeout);
  // Creates the group of `ranks`, which are ascending. All of these ranks call it together, after enter(),
  // when all of them are present. If some do not come in time, open() throws std::runtime_error, and the
  // engine's thread continues to wait for them.
  void open(const ChannelPtr& channel, const std::vector<int>& ranks, std::chrono::milliseconds timeout);
  // All members must submit collectives in the same order. `awaited`: the caller will wait for the operation
  // at once, in help().
  void submit(const OperationPtr& operation, bool awaited = false);
  // For a thread that waits for operations: advances all operations until one of them has set `done`, until
  // the time `end`, or until none has progressed for a while. Does nothing inside Operation::end().
  void help(const std::atomic<bool>& done, std::optional<std::chrono::steady_clock::time_point> end);
  // Ends all operations of the channel's group with this reason.
  void give_up(const ChannelPtr& channel, const std::string& reason);
  // Call it when the channel is no longer used.
  void close(const ChannelPtr& channel);

 private:
  class Helper;
  struct Request {
    OperationPtr operation;
    std::int64_t piece = 0;
  };
  using Time = std::chrono::steady_clock::time_point;

  struct Posted {
    std::function<void()> task;
    OperationPtr operation;  // to begin, if there is no task
  };

  Engine();
  void post(std::function<void()> task);
  void wake();
  // Does what post_and_wait() does, for a task that returns only when other ranks run it, too.
  void form(const std::function<void()>& task, std::chrono::milliseconds timeout, const std::string& late);
  // Runs the task on the engine's thread, and waits for it. Rethrows the task's exception. After the timeout,
  // throws std::runtime_error with the text `late`.
  void post_and_wait(const std::function<void()>& task, std::chrono::milliseconds timeout,
                     const std::string& late);
  void leave(int status);  // the process's exit status
  bool have_all_come();
  void say_goodbye();

  // Only for the engine's thread.
  void run();
  std::optional<Time> take_turn();
  bool perform_posted();
  void rest(Time moved_at);

  // Only for the thread that has the turn, and so makes the MPI calls.
  std::optional<bool> help_once(Time& now);
  bool look(bool some_posted, int times, Time& now);
  OperationPtr next_posted(bool& others_posted);
  void start_mpi();
  void finalize();
  void require_world(const WorldPlace& place);
  void make_comm(Channel& channel, const std::vector<int>& ranks);
  void begin(const OperationPtr& operation);
  void start_due(Channel& channel);
  bool start_piece(const OperationPtr& operation);
  bool add_requests(const OperationPtr& operation, std::int64_t piece, int code);
  bool test();
  void request_ended(const Request& request, const MPI_Status& status);
  void end(const OperationPtr& operation, const std::string& error);
  void break_channel(const ChannelPtr& channel, const std::string& reason);
  void look_at_clock(Time now);
  bool ends_now(Time now);

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Posted> inbox_;
  bool awake_ = false;    // the engine's thread has something to do
  int helper_count_ = 0;  // threads in help(): while there are any, the engine's thread has nothing to do
  std::condition_variable gone_changed_;
  bool leaving_ = false;
  bool gone_ = false;
  std::atomic<bool> has_active_ = false;  // operations were in progress at the last check
  // the engine's thread is in a call that returns only when other ranks have made the call, too
  std::atomic<bool> forming_ = false;
  std::jthread thread_;

  std::mutex turn_;  // only the thread that holds it calls MPI, and uses the members below
  Time moved_at_;
  bool started_ = false;   // MPI is initialized, by anyone
  bool owns_mpi_ = false;  // the engine initialized it
  bool left_ = false;
  bool broken_ = false;  // MPI cannot be finalized: a group was given up, or operations did not end
  bool fails_ = false;   // the process ends with an exit status other than 0
  int open_count_ = 0;
  std::list<OperationPtr> active_;
  std::vector<Request> requests_;                           // parallel to handles_
  Requests handles_;                                        // of the operations in progress
  Requests more_;                                           // filled by start_piece() and request_ended()
  std::vector<int> which_;                                  // filled by test()
  std::vector<MPI_Status> statuses_;                        // filled by test()
  std::vector<std::pair<Request, MPI_Status>> just_ended_;  // filled by test()
  std::vector<OperationPtr> abandoned_;                     // with memory that MPI may still use
  Time looked_at_;
};

// Returns a text such as "MPI_ERR_TRUNCATE: message truncated".
std::string error_text(int code);

}  // namespace muster::mpi
