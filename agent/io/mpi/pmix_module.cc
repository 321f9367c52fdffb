// libmuster_pmix.so: the part of MPI support that needs the PMIx library.
//
// No document lists the values that a server must register so that Open MPI 4.1 starts. So the list in this
// file was made from the sources of Open MPI and PMIx. Open MPI's ess_pmi_module.c asks for the local rank
// and the node rank, for the size of the job and for the highest number of processes. The client in the PMIx
// library asks for the maps of nodes and processes.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <pmix.h>
#include <pmix_server.h>
#include <set>
#include <unistd.h>
#include <utility>

#include "agent/core/mpi/mpi_fault.h"
#include "agent/io/mpi/pmix_library.h"
#include "agent/io/mpi/pmix_values.h"
#include "common/base/clock.h"

namespace muster::agent {

namespace {

// While the agent's only thread waits for the library, the agent does nothing else. Usually an answer takes
// microseconds; it takes longer only if the library is stuck.
constexpr Duration kLibraryLimit = std::chrono::seconds(3);  // for all requests that open an attempt
std::atomic<int> pending = 0;                                // requests without an answer yet

// A request to the library's thread. The library reads `infos` until it answers. So the object lives until
// then, no matter how late the answer comes.
struct Operation {
  Operation() { ++pending; }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() { --pending; }
  std::promise<pmix_status_t> told;
  Infos infos;
};

template <class Call>
Status wait_for(const char* what, TimePoint deadline, std::unique_ptr<Operation> operation, Call call) {
  std::future<pmix_status_t> told = operation->told.get_future();
  const auto tell = [](pmix_status_t status, void* context) {
    const std::unique_ptr<Operation> over(static_cast<Operation*>(context));
    over->told.set_value(status);
  };
  Operation* const lent = operation.release();
  const pmix_status_t begun =
      call(lent->infos, static_cast<pmix_op_cbfunc_t>(tell), static_cast<void*>(lent));
  if (begun != PMIX_SUCCESS) {  // after an error, the library does not call the callback
    delete lent;
    return checked(begun, what);
  }
  if (told.wait_until(deadline) != std::future_status::ready)
    return failure(ErrorCode::kTimedOut, "PMIx: {}: the library does not answer", what);
  return checked(told.get(), what);
}

std::string join(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

void release_text(void* text) {
  delete static_cast<std::string*>(text);
}

class PmixServer final : public Pmix {
 public:
  Status open(const Attempt& attempt, PmixListener& listener) override;
  Expected<std::vector<std::string>> entries_for(Rank rank) override;
  void hear(const wire::MpiTold& told) override;
  std::string fault_of(Rank rank, wire::WorkerExited& exited) override;
  void close() override;
  void end() override;

  // Called on PMIx's thread.
  using Answered = std::function<void(bool ok, std::string text)>;
  void ask(wire::MpiAsked asked, Answered answered, std::optional<std::chrono::seconds> limit = {});
  struct Meeting {
    const char* what;
    const pmix_proc_t* procs;
    std::size_t proc_count;
    const pmix_info_t* infos;
    std::size_t info_count;
  };
  void gather(const Meeting& meeting, std::string text, Answered answered);
  void fetched(std::uint64_t number, NodeId asker, bool ok, std::string text);
  void remark(std::string what);
  void note(const pmix_proc_t& proc, const std::function<void(MpiLife&)>& what);

 private:
  void gave_up(const std::string& group);
  Status start(const std::string& directory);
  Status register_attempt();
  Status add_maps(Infos& infos) const;
  void add_sizes(Infos& infos) const;
  void add_ranks(Infos& infos) const;
  pmix_proc_t proc_of(std::int32_t rank) const;
  std::int32_t first_rank_of(std::size_t node) const;
  std::size_t node_of(std::int32_t rank) const;
  static std::string host_of(std::size_t node) { return "node" + std::to_string(node); }

  bool started_ = false;
  Attempt attempt_;
  std::mutex mutex_;                  // guards the following fields
  PmixListener* listener_ = nullptr;  // for the open attempt
  std::map<std::uint64_t, Answered> questions_;
  std::map<std::string, std::uint64_t> gathered_;  // how often each group of ranks has met
  std::map<pmix_rank_t, MpiLife> lives_;
  std::uint64_t last_number_ = 0;
};

// The PMIx library calls plain functions and passes no object to them. So these functions need a global
// server.
PmixServer& server() {
  static PmixServer server;
  return server;
}

// ---- Requests of ranks ----

pmix_status_t on_connected(const pmix_proc_t* proc, void*, pmix_info_t*, std::size_t, pmix_op_cbfunc_t done,
                           void* context) {
  server().note(*proc, [](MpiLife& life) { life.connected = true, life.finalized = false; });
  if (done != nullptr) done(PMIX_SUCCESS, context);
  return PMIX_SUCCESS;
}

pmix_status_t on_finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t done, void* context) {
  server().note(*proc, [](MpiLife& life) { life.finalized = true; });
  if (done != nullptr) done(PMIX_SUCCESS, context);
  return PMIX_SUCCESS;
}

pmix_status_t on_abort(const pmix_proc_t* proc, void*, int status, const char* message, pmix_proc_t*,
                       std::size_t, pmix_op_cbfunc_t done, void* context) {
  server().note(*proc, [&](MpiLife& life) {
    life.abort_code = status;
    life.aborted = abort_text(status, message != nullptr ? message : "");
  });
  if (done != nullptr) done(PMIX_SUCCESS, context);
  return PMIX_SUCCESS;
}

// The library gives `data` to this function. So this function frees it.
pmix_status_t on_fence(const pmix_proc_t* procs, std::size_t count, const pmix_info_t* infos,
                       std::size_t info_count, char* data, std::size_t size, pmix_modex_cbfunc_t done,
                       void* context) {
  std::string text(data != nullptr ? data : "", data != nullptr ? size : 0);
  std::free(data);
  const PmixServer::Meeting meeting{"fence", procs, count, infos, info_count};
  const bool has_limit = limit_in(infos, info_count).has_value();
  server().gather(meeting, std::move(text), [done, context, has_limit](bool ok, std::string all) {
    auto* const kept = new std::string(std::move(all));
    // The launcher refuses without a reason. So this function reports the reason that is likely.
    const pmix_status_t why = has_limit ? PMIX_ERR_TIMEOUT : PMIX_ERR_OUT_OF_RESOURCE;
    done(ok ? PMIX_SUCCESS : why, kept->data(), kept->size(), context, release_text, kept);
  });
  return PMIX_SUCCESS;
}

pmix_status_t on_direct_modex(const pmix_proc_t* proc, const pmix_info_t*, std::size_t,
                              pmix_modex_cbfunc_t done, void* context) {
  server().ask({.verb = wire::MpiVerb::kFetch, .wanted = Rank(static_cast<std::int32_t>(proc->rank))},
               [done, context](bool ok, std::string all) {
                 auto* const kept = new std::string(std::move(all));
                 done(ok ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, kept->data(), kept->size(), context,
                      release_text, kept);
               });
  return PMIX_SUCCESS;
}

bool is_directive(const pmix_info_t& info) {
  return std::strncmp(info.key, "pmix.", 5) == 0;
}

// The library calls these functions when a rank asks for something. If such a function returned an error, the
// rank would wait forever. So the functions return success, and send the error as the answer.
pmix_status_t on_publish(const pmix_proc_t*, const pmix_info_t* infos, std::size_t count,
                         pmix_op_cbfunc_t done, void* context) {
  bool once = false;
  std::vector<wire::MpiAsked> questions;
  for (std::size_t i = 0; i < count; ++i) {
    if (PMIX_CHECK_KEY(&infos[i], PMIX_PERSISTENCE))
      once = infos[i].value.data.persist == PMIX_PERSIST_FIRST_READ;
    if (is_directive(infos[i])) continue;
    auto bytes = packed(infos[i].value);
    if (!bytes) continue;
    questions.push_back(
        {.verb = wire::MpiVerb::kPublish, .key = infos[i].key, .text = wire::Bytes(*std::move(bytes))});
  }
  if (questions.empty()) return PMIX_OPERATION_SUCCEEDED;
  struct Left {
    std::size_t count;
    bool ok = true;
  };
  const auto left = std::make_shared<Left>(questions.size());
  for (wire::MpiAsked& each : questions) {
    each.ok = once;
    server().ask(std::move(each), [left, done, context](bool ok, const std::string&) {
      left->ok = left->ok && ok;
      if (--left->count == 0) done(left->ok ? PMIX_SUCCESS : PMIX_ERR_DUPLICATE_KEY, context);
    });
  }
  return PMIX_SUCCESS;
}

// If a request asks for several names, it is refused. Open MPI looks up one name at a time.
pmix_status_t on_lookup(const pmix_proc_t* proc, char** keys, const pmix_info_t* infos, std::size_t count,
                        pmix_lookup_cbfunc_t done, void* context) {
  bool waits = false;
  for (std::size_t i = 0; i < count; ++i) waits = waits || PMIX_CHECK_KEY(&infos[i], PMIX_WAIT);
  const auto answer = [done, context, proc = *proc, key = std::string(keys[0])](bool ok,
                                                                                const std::string& text) {
    pmix_pdata_t found;
    PMIX_PDATA_CONSTRUCT(&found);
    found.proc = proc;
    PMIX_LOAD_KEY(found.key, key.c_str());
    ok = ok && unpack(text, found.value);
    done(ok ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, ok ? &found : nullptr, ok ? 1 : 0, context);
    PMIX_PDATA_DESTRUCT(&found);
  };
  if (keys[1] != nullptr) {
    answer(false, "");
    return PMIX_SUCCESS;
  }
  server().ask({.verb = wire::MpiVerb::kLookUp, .key = keys[0], .ok = waits}, answer);
  return PMIX_SUCCESS;
}

pmix_status_t on_unpublish(const pmix_proc_t*, char** keys, const pmix_info_t*, std::size_t,
                           pmix_op_cbfunc_t done, void* context) {
  for (char** key = keys; key != nullptr && *key != nullptr; ++key)
    server().ask({.verb = wire::MpiVerb::kUnpublish, .key = *key}, [](bool, const std::string&) {});
  done(PMIX_SUCCESS, context);
  return PMIX_SUCCESS;
}

pmix_status_t on_spawn(const pmix_proc_t*, const pmix_info_t*, std::size_t, const pmix_app_t*, std::size_t,
                       pmix_spawn_cbfunc_t done, void* context) {
  server().remark(spawn_remark());
  char none[PMIX_MAX_NSLEN + 1] = "";
  done(PMIX_ERR_NOT_SUPPORTED, none, context);
  return PMIX_SUCCESS;
}

pmix_status_t meet(const PmixServer::Meeting& meeting, pmix_op_cbfunc_t done, void* context) {
  server().gather(meeting, "", [done, context](bool ok, const std::string&) {
    done(ok ? PMIX_SUCCESS : PMIX_ERROR, context);
  });
  return PMIX_SUCCESS;
}

pmix_status_t on_connect(const pmix_proc_t* procs, std::size_t count, const pmix_info_t* infos,
                         std::size_t info_count, pmix_op_cbfunc_t done, void* context) {
  return meet({"connect", procs, count, infos, info_count}, done, context);
}

pmix_status_t on_disconnect(const pmix_proc_t* procs, std::size_t count, const pmix_info_t* infos,
                            std::size_t info_count, pmix_op_cbfunc_t done, void* context) {
  return meet({"disconnect", procs, count, infos, info_count}, done, context);
}

// The next three functions do nothing with events. If a rank fails, the attempt ends anyway.
pmix_status_t on_register_events(pmix_status_t*, std::size_t, const pmix_info_t*, std::size_t,
                                 pmix_op_cbfunc_t done, void* context) {
  if (done != nullptr) done(PMIX_SUCCESS, context);
  return PMIX_SUCCESS;
}

pmix_status_t on_deregister_events(pmix_status_t*, std::size_t, pmix_op_cbfunc_t done, void* context) {
  if (done != nullptr) done(PMIX_SUCCESS, context);
  return PMIX_SUCCESS;
}

pmix_status_t on_event(pmix_status_t, const pmix_proc_t*, pmix_data_range_t, pmix_info_t*, std::size_t,
                       pmix_op_cbfunc_t done, void* context) {
  if (done != nullptr) done(PMIX_SUCCESS, context);
  return PMIX_SUCCESS;
}

// ---- The server ----

void PmixServer::note(const pmix_proc_t& proc, const std::function<void(MpiLife&)>& what) {
  const std::lock_guard lock(mutex_);
  if (attempt_.name == proc.nspace) what(lives_[proc.rank]);
}

void PmixServer::remark(std::string what) {
  const std::lock_guard lock(mutex_);
  if (listener_ != nullptr) listener_->remarked(std::move(what));
}

void PmixServer::ask(wire::MpiAsked asked, Answered answered, std::optional<std::chrono::seconds> limit) {
  {
    const std::lock_guard lock(mutex_);
    if (listener_ != nullptr && asked.text.view().size() <= wire::kMostMpiBytes) {
      asked.number = ++last_number_;
      questions_[asked.number] = std::move(answered);
      listener_->asked(std::move(asked), limit);
      return;
    }
  }
  answered(false, "");
}

// Asks the launcher for a fence with the other nodes of a group of ranks. The library calls this when all
// ranks of the group on this node have arrived. The fences of a group are numbered: a group may meet again
// before all nodes know that its last fence is over. If a rank of this node does not arrive, the library
// itself gives up. Then this function is not called, and the other nodes do not learn of the fence.
void PmixServer::gather(const Meeting& meeting, std::string text, Answered answered) {
  wire::MpiAsked asked{
      .verb = wire::MpiVerb::kFence, .key = meeting.what, .text = wire::Bytes(std::move(text))};
  // The ranks can set a time limit. The library itself applies the limit to a connect (PMIx_Connect), but not
  // to a fence or a disconnect.
  const bool takes_limit = std::string_view(meeting.what) != "connect";
  std::string group;
  {
    const std::lock_guard lock(mutex_);
    std::set<std::size_t> nodes;
    std::set<pmix_rank_t> ranks;  // a set, because the ranks can list them in different orders
    for (std::size_t i = 0; i < meeting.proc_count; ++i) {
      ranks.insert(meeting.procs[i].rank);
      nodes.insert(node_of(static_cast<std::int32_t>(meeting.procs[i].rank)));
    }
    const bool all = ranks.contains(PMIX_RANK_WILDCARD);
    if (all) asked.key += " all";
    for (auto rank = ranks.begin(); !all && rank != ranks.end(); ++rank)
      asked.key += " " + std::to_string(*rank);
    asked.count = static_cast<std::int32_t>(all ? attempt_.rank_counts.size() : nodes.size());
    group = asked.key;
    const std::uint64_t times = ++gathered_[group];
    asked.key += " #" + std::to_string(times);
  }
  ask(
      std::move(asked),
      [group, answered = std::move(answered)](bool ok, std::string all) {
        if (!ok) server().gave_up(group);
        answered(ok, std::move(all));
      },
      takes_limit ? limit_in(meeting.infos, meeting.info_count) : std::nullopt);
}

// Takes a failed fence out of this node's count. Nodes that never joined the fence have not counted it, and
// the counts must agree. A rank that arrives late joins the next fence of this group.
void PmixServer::gave_up(const std::string& group) {
  const std::lock_guard lock(mutex_);
  if (const auto times = gathered_.find(group); times != gathered_.end() && times->second > 0)
    --times->second;
}

void PmixServer::fetched(std::uint64_t number, NodeId asker, bool ok, std::string text) {
  ok = ok && text.size() <= wire::kMostMpiBytes;
  const std::lock_guard lock(mutex_);
  if (listener_ == nullptr) return;
  listener_->asked({.verb = wire::MpiVerb::kAnswer,
                    .number = number,
                    .node = asker,
                    .ok = ok,
                    .text = wire::Bytes(ok ? std::move(text) : std::string())},
                   {});
}

void PmixServer::hear(const wire::MpiTold& told) {
  if (told.verb == wire::MpiVerb::kFetch) {
    struct Asked {
      std::uint64_t number;
      NodeId node;
    };
    // The library calls this function when the rank has published its data. That may be after
    // PMIx_server_dmodex_request() has returned.
    const auto tell = [](pmix_status_t status, char* data, std::size_t size, void* context) {
      const std::unique_ptr<Asked> asked(static_cast<Asked*>(context));
      const bool ok = status == PMIX_SUCCESS;
      server().fetched(asked->number, asked->node, ok, ok ? std::string(data, size) : std::string());
    };
    const pmix_proc_t proc = proc_of(told.wanted.value());
    auto asked = std::make_unique<Asked>(told.number, told.node);
    if (PMIx_server_dmodex_request(&proc, tell, asked.get()) == PMIX_SUCCESS)
      (void)asked.release();
    else
      fetched(told.number, told.node, false, "");
    return;
  }
  Answered answered;
  {
    const std::lock_guard lock(mutex_);
    auto found = questions_.extract(told.number);
    if (!found.empty()) answered = std::move(found.mapped());
  }
  if (answered) answered(told.ok, std::string(told.text.view()));
}

std::string PmixServer::fault_of(Rank rank, wire::WorkerExited& exited) {
  const std::lock_guard lock(mutex_);
  const auto life = lives_.find(static_cast<pmix_rank_t>(rank.value()));
  return life == lives_.end() ? "" : mpi_fault(life->second, exited);
}

Status PmixServer::start(const std::string& directory) {
  if (started_) return {};
  static pmix_server_module_t upcalls{};
  upcalls.client_connected2 = on_connected;
  upcalls.client_finalized = on_finalized;
  upcalls.abort = on_abort;
  upcalls.fence_nb = on_fence;
  upcalls.direct_modex = on_direct_modex;
  upcalls.publish = on_publish;
  upcalls.lookup = on_lookup;
  upcalls.unpublish = on_unpublish;
  upcalls.spawn = on_spawn;
  upcalls.connect = on_connect;
  upcalls.disconnect = on_disconnect;
  upcalls.register_events = on_register_events;
  upcalls.deregister_events = on_deregister_events;
  upcalls.notify_event = on_event;
  Infos infos;
  infos.add_text(PMIX_SERVER_TMPDIR, directory);
  infos.add_text(PMIX_SYSTEM_TMPDIR, directory);
  infos.add_text(PMIX_SERVER_NSPACE, "muster-agents");
  infos.add_rank(PMIX_SERVER_RANK, static_cast<pmix_rank_t>(attempt_.own));
  infos.add_text(PMIX_HOSTNAME, host_of(attempt_.own));
  const Status begun = checked(PMIx_server_init(&upcalls, infos.data(), infos.size()), "starting the server");
  started_ = begun.has_value();
  return begun;
}

Status PmixServer::open(const Attempt& attempt, PmixListener& listener) {
  {
    const std::lock_guard lock(mutex_);
    attempt_ = attempt;
    listener_ = &listener;
  }
  if (Status begun = start(attempt.directory); !begun) return begun;
  return register_attempt();
}

std::int32_t PmixServer::first_rank_of(std::size_t node) const {
  std::int32_t first = 0;
  for (std::size_t i = 0; i < node; ++i) first += attempt_.rank_counts[i];
  return first;
}

std::size_t PmixServer::node_of(std::int32_t rank) const {
  std::size_t node = 0;
  for (std::int32_t left = rank; node + 1 < attempt_.rank_counts.size(); ++node) {
    left -= attempt_.rank_counts[node];
    if (left < 0) break;
  }
  return node;
}

pmix_proc_t PmixServer::proc_of(std::int32_t rank) const {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, attempt_.name.c_str(), static_cast<pmix_rank_t>(rank));
  return proc;
}

Status PmixServer::add_maps(Infos& infos) const {
  std::vector<std::string> hosts;
  std::vector<std::string> ranks;
  for (std::size_t node = 0; node < attempt_.rank_counts.size(); ++node) {
    hosts.push_back(host_of(node));
    std::vector<std::string> own;
    for (std::int32_t i = 0; i < attempt_.rank_counts[node]; ++i)
      own.push_back(std::to_string(first_rank_of(node) + i));
    ranks.push_back(join(own, ","));
  }
  infos.add_text(PMIX_LOCAL_PEERS, ranks[attempt_.own]);
  char* of_nodes = nullptr;
  char* of_ranks = nullptr;
  Status made = checked(PMIx_generate_regex(join(hosts, ",").c_str(), &of_nodes), "the map of nodes");
  if (made) made = checked(PMIx_generate_ppn(join(ranks, ";").c_str(), &of_ranks), "the map of ranks");
  if (made) infos.add(PMIX_NODE_MAP, of_nodes, PMIX_REGEX);
  if (made) infos.add(PMIX_PROC_MAP, of_ranks, PMIX_REGEX);
  std::free(of_nodes);
  std::free(of_ranks);
  return made;
}

void PmixServer::add_sizes(Infos& infos) const {
  const auto size = static_cast<std::uint32_t>(first_rank_of(attempt_.rank_counts.size()));
  const auto own_size = static_cast<std::uint32_t>(attempt_.rank_counts[attempt_.own]);
  for (const char* name : {PMIX_UNIV_SIZE, PMIX_JOB_SIZE, PMIX_MAX_PROCS}) infos.add_number(name, size);
  for (const char* name : {PMIX_LOCAL_SIZE, PMIX_NODE_SIZE}) infos.add_number(name, own_size);
  infos.add_number(PMIX_JOB_NUM_APPS, 1);
  infos.add_number(PMIX_NUM_NODES, static_cast<std::uint32_t>(attempt_.rank_counts.size()));
  infos.add_rank(PMIX_LOCALLDR, static_cast<pmix_rank_t>(first_rank_of(attempt_.own)));
  infos.add_text(PMIX_JOBID, attempt_.name);
  infos.add_text(PMIX_TMPDIR, attempt_.directory);
  infos.add_text(PMIX_NSDIR, attempt_.directory);
  const bool cleans = true;  // the agent, which made the directory, removes it
  infos.add(PMIX_TDIR_RMCLEAN, &cleans, PMIX_BOOL);
}

void PmixServer::add_ranks(Infos& infos) const {
  for (std::size_t node = 0; node < attempt_.rank_counts.size(); ++node) {
    for (std::int32_t i = 0; i < attempt_.rank_counts[node]; ++i) {
      const auto rank = static_cast<pmix_rank_t>(first_rank_of(node) + i);
      const auto local = static_cast<std::uint16_t>(i);
      Infos own;
      for (const char* name : {PMIX_RANK, PMIX_GLOBAL_RANK, PMIX_APP_RANK}) own.add_rank(name, rank);
      own.add_rank(PMIX_APPLDR, 0);
      own.add_number(PMIX_APPNUM, 0);
      for (const char* name : {PMIX_LOCAL_RANK, PMIX_NODE_RANK}) own.add(name, &local, PMIX_UINT16);
      own.add_number(PMIX_NODEID, static_cast<std::uint32_t>(node));
      own.add_text(PMIX_HOSTNAME, host_of(node));
      infos.add_infos(PMIX_PROC_INFO_ARRAY, own);
    }
  }
}

Status PmixServer::register_attempt() {
  const char* const name = attempt_.name.c_str();
  const int own_count = attempt_.rank_counts[attempt_.own];
  const TimePoint deadline = Clock::now() + kLibraryLimit;
  auto job = std::make_unique<Operation>();
  if (Status maps = add_maps(job->infos); !maps) return maps;
  add_sizes(job->infos);
  add_ranks(job->infos);
  Status registered = wait_for("registering the job", deadline, std::move(job),
                               [&](Infos& infos, pmix_op_cbfunc_t done, void* context) {
                                 return PMIx_server_register_nspace(name, own_count, infos.data(),
                                                                    infos.size(), done, context);
                               });
  if (!registered) return registered;
  registered = wait_for("preparing the node", deadline, std::make_unique<Operation>(),
                        [&](Infos&, pmix_op_cbfunc_t done, void* context) {
                          return PMIx_server_setup_local_support(name, nullptr, 0, done, context);
                        });
  for (int i = 0; registered && i < own_count; ++i) {
    const pmix_proc_t proc = proc_of(first_rank_of(attempt_.own) + i);
    registered =
        wait_for("registering a rank", deadline, std::make_unique<Operation>(),
                 [&](Infos&, pmix_op_cbfunc_t done, void* context) {
                   return PMIx_server_register_client(&proc, geteuid(), getegid(), nullptr, done, context);
                 });
  }
  return registered;
}

Expected<std::vector<std::string>> PmixServer::entries_for(Rank rank) {
  const pmix_proc_t proc = proc_of(rank.value());
  char** made = nullptr;
  const Status set = checked(PMIx_server_setup_fork(&proc, &made), "the environment of a rank");
  std::vector<std::string> entries;
  for (char** entry = made; entry != nullptr && *entry != nullptr; ++entry) entries.emplace_back(*entry);
  PMIX_ARGV_FREE(made);
  if (!set) return std::unexpected(set.error());
  return entries;
}

void PmixServer::close() {
  std::map<std::uint64_t, Answered> left;
  {
    const std::lock_guard lock(mutex_);
    listener_ = nullptr;
    left.swap(questions_);
    gathered_.clear();
    lives_.clear();
  }
  for (const auto& [number, answered] : left) answered(false, "");
  if (attempt_.name.empty()) return;
  // If an earlier request has no answer yet, the library's thread is stuck. The agent has already waited for
  // that request, and does not wait for this one.
  const TimePoint deadline = pending > 0 ? TimePoint() : Clock::now() + kLibraryLimit;
  (void)wait_for("the job's end", deadline, std::make_unique<Operation>(),
                 [this](Infos&, pmix_op_cbfunc_t done, void* context) {
                   PMIx_server_deregister_nspace(attempt_.name.c_str(), done, context);
                   return PMIX_SUCCESS;
                 });
  const std::lock_guard lock(mutex_);
  attempt_ = {};
}

void PmixServer::end() {
  // PMIx_server_finalize() waits for the thread of the library. If that thread is stuck,
  // PMIx_server_finalize() would never return, so it is not called.
  if (std::exchange(started_, false) && pending == 0) PMIx_server_finalize();
}

}  // namespace

}  // namespace muster::agent

extern "C" muster::agent::Pmix* muster_pmix() {
  return &muster::agent::server();
}
