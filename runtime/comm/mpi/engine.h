// Makes all MPI calls of a process. It starts the operations that the program requests, and continues those
// that are in progress.
//
// Threads: the engine has its own thread, which makes the calls. But while a thread of the program waits for
// its operation, that thread makes the calls. This avoids two changes of threads. Only one thread at a time
// makes calls: the thread that has the turn. So MPI_THREAD_SERIALIZED is enough, and the engine asks for it
// when it initializes MPI, at the first use of MPI. If the program has initialized MPI itself, it must have
// got MPI_THREAD_MULTIPLE. Any thread can call the public functions.
//
// Waiting: one engine serves all groups, and no operation blocks it. At first, the thread that has the turn
// tests the operations in a loop. After a while, the engine's thread does this instead, and sleeps between
// two tests. It sleeps for a sixteenth of the time that it has already waited, but at most for a millisecond.
// So a rank that waits takes almost no processor time from the others.
//
// Errors: Open MPI cannot cancel an operation whose peer has died. If an operation does not end before its
// deadline, the engine gives up the whole group. Every operation of the group then ends with the reason.
// Memory that MPI may still write to is kept, and MPI is not finalized at the end of the process.
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
  // Tells the other ranks that this rank waits in the collective `number` and makes no progress. It is called
  // on the thread that makes the MPI calls. So it must not wait for anything.
  std::function<void(std::int64_t number)> tell;
  // Finds the members that have not yet said that they wait in the collective `number`. Then calls `answer`
  // with a text that names these members. The text is "" if there are none, or if they are not known.
  // `answer` can be called on any thread.
  std::function<void(std::int64_t number, std::function<void(std::string)> answer)> missing;

  bool has_parts = false;  // whether `parts` exists

  // Only the engine uses the members below.
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm parts = MPI_COMM_NULL;  // for the messages of Muster's own collectives (direct.h)
  std::string broken;              // why the group cannot be used any more
  std::int64_t entered = 0;        // number of collectives begun
  std::int64_t told = 0;           // the newest number given to `tell`
  // Collectives that still have pieces to start. All ranks must start them in the same order.
  std::deque<OperationPtr> due;
};
using ChannelPtr = std::shared_ptr<Channel>;

using Requests = std::vector<MPI_Request>;

// One call of a collective or a message. If the engine gives up the group of the call, MPI may still use the
// call's memory. So the engine keeps such an Operation and its memory, if necessary until the process ends.
struct Operation {
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;
  // These functions run on the thread that makes the MPI calls. The first two return error codes of MPI.
  // - start() begins a piece. It appends at least one request to `more`.
  // - go_on() is called when a request of a piece has ended. It appends the next requests to `more`. If there
  //   are none, it sets `piece_is_over`.
  // - end() is called once. If all pieces have ended, `error` is empty.
  virtual int start(std::int64_t piece, Requests& more) = 0;
  virtual int go_on(std::int64_t /*piece*/, Requests& /*more*/, bool& piece_is_over) {
    piece_is_over = true;
    return MPI_SUCCESS;
  }
  virtual void end(const std::string& error) = 0;
  // Returns a text such as "all_reduce of Float [4]". It is only used in errors.
  virtual std::string what() const = 0;

  ChannelPtr channel;
  bool collective = true;
  std::chrono::milliseconds timeout{};
  // The number of pieces of the call. The pieces start in order. At most two pieces of a collective are in
  // progress at the same time.
  std::int64_t piece_count = 1;

  // Only the engine uses the members below.
  std::int64_t number = 0;  // among the group's collectives
  std::int64_t started = 0;
  std::int64_t ended = 0;
  std::int64_t request_count = 0;  // unfinished requests
  bool is_over = false;
  MPI_Status status{};  // of the last request
  std::chrono::steady_clock::time_point since;
  // The time at which the engine asked which ranks are missing.
  std::optional<std::chrono::steady_clock::time_point> asked_at;
};

// The place of this process in its job. The rank and the size in MPI_COMM_WORLD must be the same.
struct WorldPlace {
  int rank = 0;
  int size = 1;
};

class Engine {
 public:
  // Returns the engine of this process. It exists until the process ends. At that time, it finalizes MPI, if
  // all channels have been closed in good order.
  static Engine& of_process();

  // Initializes MPI. MPI waits for all ranks of its world. Throws std::runtime_error if MPI cannot be used,
  // if the ranks of MPI's world are not the ranks of the job, or if the other ranks do not come in time.
  void enter(const WorldPlace& place, std::chrono::milliseconds timeout);
  // Creates the group of `ranks`. The ranks must be in ascending order. Each of these ranks first calls
  // enter(). When all of these ranks are present, all of them call open(). If some do not come in time,
  // open() throws std::runtime_error. The engine's thread then still waits for them.
  void open(const ChannelPtr& channel, const std::vector<int>& ranks, std::chrono::milliseconds timeout);
  // Submits an operation. All members must submit collectives in the same order. `awaited` is true if the
  // caller will at once call help() to wait for the operation.
  void submit(const OperationPtr& operation, bool awaited = false);
  // A thread that waits for operations calls help(). It works on all operations of the process. It returns
  // when one of them has set `done`, at the time `end`, or when no operation has made progress for a while.
  // Inside Operation::end() it does nothing.
  void help(const std::atomic<bool>& done, std::optional<std::chrono::steady_clock::time_point> end);
  // Ends all operations of the channel's group. `reason` becomes their error.
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
  // Does the same as post_and_wait(), but for a task that returns only when other ranks run the same task.
  void form(const std::function<void()>& task, std::chrono::milliseconds timeout, const std::string& late);
  // Runs the task on the engine's thread, and waits until it has ended. If the task throws, post_and_wait()
  // throws the same exception. If the task has not ended after `timeout`, throws std::runtime_error with the
  // text `late`.
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

  // Only the thread that has the turn, that is, the thread that makes the MPI calls, calls these functions.
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
  // True while the engine's thread is in a call that returns only when other ranks have made the same call.
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
