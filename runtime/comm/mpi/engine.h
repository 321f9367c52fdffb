// Who makes a process's MPI calls: starts what is asked for, and moves on what is under way.
//
// That is a thread of the engine's own, or in its place a thread of the program's that waits for what it has
// asked for, which spares two changes of threads. One of them has the turn at a time, so that MPI is started
// with MPI_THREAD_SERIALIZED, when it is first needed; a program that has started MPI itself must have got
// MPI_THREAD_MULTIPLE. One engine serves all groups. It never blocks in an operation: who has the turn looks
// without a rest for a while; then the engine's thread has it, and sleeps between two looks for a sixteenth
// of the time that it has waited so far, a millisecond at most, so that a rank which waits takes next to
// nothing of a processor that others compute on.
//
// Open MPI cannot give up an operation that a dead peer takes part in. When a deadline has passed, its group
// is given up: everything in it ends with the reason, the memory that MPI may still write to is kept, and MPI
// is not finalized at the end of the process. Free of torch. What is not said to be the engine's own may be
// called by any thread.
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

// What the operations of one group have in common.
struct Channel {
  // Both of whoever has the turn, and return at once. Writes down for the others that this rank has entered a
  // collective, and does not get on.
  std::function<void(std::int64_t number)> tell;
  // Answers in words, from any thread, who has not written that down; empty: nobody, or it is not known.
  std::function<void(std::int64_t number, std::function<void(std::string)> answer)> missing;

  bool has_parts = false;  // whether there is `parts`

  // What follows is the engine's own.
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm parts = MPI_COMM_NULL;  // for the messages that collectives of ours are made of (direct.h)
  std::string broken;              // why nothing goes any more
  std::int64_t entered = 0;        // collectives
  std::int64_t told = 0;           // up to this one
  std::deque<OperationPtr>
      due;  // collectives of which pieces are not started: all ranks must in the same order
};
using ChannelPtr = std::shared_ptr<Channel>;

using Requests = std::vector<MPI_Request>;

// One call of a group's. It may be kept for ever, with the memory that it holds.
struct Operation {
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;
  // All of whoever has the turn; they return MPI's codes. `start` appends one request or more, and `go_on`,
  // when one of the piece's has ended, either those that come next, if any, or says that the piece is over.
  // `end` is called once, without an error when all pieces are.
  virtual int start(std::int64_t piece, Requests& more) = 0;
  virtual int go_on(std::int64_t /*piece*/, Requests& /*more*/, bool& piece_is_over) {
    piece_is_over = true;
    return MPI_SUCCESS;
  }
  virtual void end(const std::string& error) = 0;
  // "all_reduce of Float [4]": asked for when something is wrong.
  virtual std::string what() const = 0;

  ChannelPtr channel;
  bool collective = true;
  std::chrono::milliseconds timeout{};
  // Pieces are started in order; of a collective two are under way at a time.
  std::int64_t piece_count = 1;

  // What follows is the engine's own.
  std::int64_t number = 0;  // among the group's collectives
  std::int64_t started = 0;
  std::int64_t ended = 0;
  std::int64_t request_count = 0;  // that have not ended
  bool is_over = false;
  MPI_Status status{};  // of the last request
  std::chrono::steady_clock::time_point since;
  std::optional<std::chrono::steady_clock::time_point> asked_at;  // who is missing
};

// Where this process is in its job; MPI_COMM_WORLD must say the same.
struct WorldPlace {
  int rank = 0;
  int size = 1;
};

class Engine {
 public:
  // Lives until the process ends, at which MPI is finalized if every channel was closed in good order.
  static Engine& of_process();

  // Starts MPI, which waits for all ranks of its world. Throws std::runtime_error: MPI cannot be used, its
  // world is not the job's, or the others have not come in time.
  void enter(const WorldPlace& place, std::chrono::milliseconds timeout);
  // Collective over these ranks, ascending, after enter(). They should all be there: if the others do not
  // come in time, which std::runtime_error says, the thread waits on for them.
  void open(const ChannelPtr& channel, const std::vector<int>& ranks, std::chrono::milliseconds timeout);
  // In one order on all members, as far as collectives are concerned. `awaited`: the caller waits for it at
  // once, and calls help() meanwhile.
  void submit(const OperationPtr& operation, bool awaited = false);
  // By a thread that waits for operations: moves all of them on, until one of them has set `done`, the time
  // is over, or nothing has moved for a while. Does nothing in `end` of an operation.
  void help(const std::atomic<bool>& done, std::optional<std::chrono::steady_clock::time_point> end);
  // Ends everything in it, with this reason.
  void give_up(const ChannelPtr& channel, const std::string& reason);
  // When the channel is not used any more.
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
    OperationPtr operation;  // else: to be begun
  };

  Engine();
  void post(std::function<void()> task);
  void wake();
  // Of calls that end when others have made them.
  void form(const std::function<void()>& task, std::chrono::milliseconds timeout, const std::string& late);
  // Throws what the task threw, and std::runtime_error with `late` when the time is over.
  void post_and_wait(const std::function<void()>& task, std::chrono::milliseconds timeout,
                     const std::string& late);
  void leave(int status);  // the process's
  bool have_all_come();
  void say_goodbye();

  // Of the engine's thread.
  void run();
  std::optional<Time> take_turn();
  bool perform_posted();
  void rest(Time moved_at);

  // Of whoever has the turn.
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
  int helper_count_ = 0;  // while there are some, it has nothing to do
  std::condition_variable gone_changed_;
  bool leaving_ = false;
  bool gone_ = false;
  std::atomic<bool> has_active_ = false;  // something was under way at the last look
  std::atomic<bool> forming_ = false;     // the thread is in a call that ends when others have made it
  std::jthread thread_;

  std::mutex turn_;  // who has it may use what follows, and make MPI calls
  Time moved_at_;
  bool started_ = false;   // MPI, by whomever
  bool owns_mpi_ = false;  // it was started here
  bool left_ = false;
  bool broken_ = false;  // something is under way that nobody waits for
  bool fails_ = false;   // the process, by its exit status
  int open_count_ = 0;
  std::list<OperationPtr> active_;
  std::vector<Request> requests_;                           // beside handles_
  Requests handles_;                                        // of what is under way
  Requests more_;                                           // start_piece()'s and request_ended()'s
  std::vector<int> which_;                                  // test()'s
  std::vector<MPI_Status> statuses_;                        // the same
  std::vector<std::pair<Request, MPI_Status>> just_ended_;  // the same
  std::vector<OperationPtr> abandoned_;                     // with the memory that MPI may still use
  Time looked_at_;
};

// "MPI_ERR_TRUNCATE: message truncated".
std::string error_text(int code);

}  // namespace muster::mpi
