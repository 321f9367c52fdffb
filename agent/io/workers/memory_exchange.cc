#include "agent/io/workers/memory_exchange.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "agent/io/workers/memory_conversation.h"
#include "common/base/log.h"
#include "common/base/quiet_thread.h"
#include "common/net/connect.h"
#include "common/net/listener.h"
#include "common/wire/agent_identity.h"

namespace muster::agent {

namespace {

constexpr int kNiceness = 10;  // the thread gets a tenth of the processor time of a thread with niceness 0
constexpr Duration kNeighbourLimit = std::chrono::seconds(5);

}  // namespace

// Does the work of the thread "muster-exchange". There is one object for all attempts, which come one after
// the other.
class MemoryExchange::Attempts : public std::enable_shared_from_this<Attempts> {
 public:
  Attempts(MemoryExchange& owner)
      : owner_(owner), setting_(owner.setting_), tasks_(owner.io_.get_executor()), late_(owner.io_) {}

  void listen(std::shared_ptr<net::Listener> listener) {
    end();
    if (tasks_.empty()) ended_listeners_.clear();
    listener_ = std::move(listener);
  }

  void begin(std::uint64_t number, const std::string& job, Attempt attempt,
             const std::vector<wire::Neighbour>& neighbours) {
    number_ = number;
    attempt_ = attempt;
    has_remarked_ = false;
    for (const wire::Neighbour& each : neighbours) {
      const auto key = net::key_from_hex(each.key);
      if (!key) {
        remark(fmt::format("this node and node{} copy nothing between their memories: its key is not valid",
                           each.node));
        continue;
      }
      if (each.has_ours) awaited_.insert(each.node);
      std::string identity = wire::peer_identity(job, setting_.own, {each.node, each.incarnation});
      if (each.port != 0)
        tasks_.spawn(call(shared_from_this(), number_, each, identity, *key));
      else
        callers_[std::move(identity)] = {each, *key};
    }
    if (const auto tls = net::Tls::load(); tls && listener_ && !callers_.empty()) accept(**tls);
    fetched_if_all();
    // Some neighbours may not have connected after kNeighbourLimit. From then on they are no longer awaited.
    late_.expires_after(kNeighbourLimit);
    late_.async_wait([this, number = number_](const boost::system::error_code& error) {
      if (error || number != number_) return;
      std::erase_if(awaited_, [this](NodeId each) { return !talks_.contains(each); });
      fetched_if_all();
    });
  }

  void saved(const Copy& copy) {
    current_[copy.rank] = copy;
    for (const auto& [node, talk] : talks_) talk->tell(copy);
  }

  void end() {
    number_ = 0;
    late_.cancel();
    if (listener_) {
      listener_->stop();
      ended_listeners_.push_back(std::move(listener_));
    }
    callers_.clear();
    awaited_.clear();
    current_.clear();
    for (const auto& [node, talk] : talks_) talk->close();
    talks_.clear();
    tasks_.cancel();
  }

 private:
  struct Caller {
    wire::Neighbour neighbour;
    net::Key key;
  };

  void accept(const net::Tls& tls) {
    listener_->start(
        tls, tasks_,
        [this](std::string_view identity) -> std::optional<net::Key> {
          const auto found = callers_.find(std::string(identity));
          return found == callers_.end() ? std::nullopt : std::optional(found->second.key);
        },
        [this](std::shared_ptr<net::Connection> connection) {
          const auto found = callers_.find(connection->identity());
          if (found == callers_.end()) return connection->close();
          talk(found->second.neighbour, std::move(connection));
        },
        {});
  }

  static awaitable<void> call(std::shared_ptr<Attempts> self, std::uint64_t number, wire::Neighbour neighbour,
                              std::string identity, net::Key key) {
    auto connection = co_await net::connect(neighbour.address, static_cast<std::uint16_t>(neighbour.port),
                                            identity, key, kNeighbourLimit);
    if (number != self->number_) {
      if (connection) (*connection)->close();
      co_return;
    }
    if (connection) {
      self->talk(neighbour, *std::move(connection));
      co_return;
    }
    self->remark(fmt::format("this node and node{} copy nothing between their memories: {}", neighbour.node,
                             connection.error().message()));
    self->fetched(neighbour.node);
  }

  void talk(const wire::Neighbour& neighbour, std::shared_ptr<net::Connection> connection) {
    if (talks_.contains(neighbour.node)) return connection->close();
    const auto conversation = std::make_shared<MemoryConversation>(
        MemoryConversation::Setting{
            .slots = setting_.slots,
            .own = setting_.own.node,
            .attempt = attempt_,
            .neighbour = neighbour,
            .current = current_,
            .on_fetched =
                [this, number = number_](NodeId node) {
                  if (number == number_) fetched(node);
                },
            .on_remark = [this](std::string what) { remark(std::move(what)); },
            .is_stopped = [this, number = number_] { return owner_.at_hand_ != number; }},
        std::move(connection), owner_.io_.get_executor());
    talks_[neighbour.node] = conversation;
    tasks_.spawn(MemoryConversation::hold(conversation));
  }

  void remark(std::string what) {
    if (!std::exchange(has_remarked_, true)) setting_.on_remark(std::move(what));
  }

  void fetched(NodeId node) {
    if (awaited_.erase(node) > 0) fetched_if_all();
  }
  void fetched_if_all() {
    std::uint64_t own = number_;  // if the next attempt has begun, `fetching_` differs and stays
    if (!awaited_.empty() || !owner_.fetching_.compare_exchange_strong(own, 0)) return;
    setting_.slots.stop_fetching(attempt_);
    setting_.on_fetched();
  }

  MemoryExchange& owner_;
  const Setting& setting_;
  net::TaskGroup tasks_;
  asio::steady_timer late_;
  std::shared_ptr<net::Listener> listener_;
  std::vector<std::shared_ptr<net::Listener>> ended_listeners_;  // their tasks may not have ended yet
  Attempt attempt_;
  std::uint64_t number_ = 0;  // the number of the call of begin(); 0: the attempt has ended
  std::map<std::string, Caller> callers_;
  std::set<NodeId> awaited_;      // neighbours from which slots of this node's ranks are still to be fetched
  std::map<Rank, Copy> current_;  // the slots that this node's ranks saved last, or resume from
  std::map<NodeId, std::shared_ptr<MemoryConversation>> talks_;
  bool has_remarked_ = false;
};

MemoryExchange::MemoryExchange(Setting setting) : setting_(std::move(setting)), work_(io_.get_executor()) {}

MemoryExchange::~MemoryExchange() {
  if (!thread_.joinable()) return;
  end();
  asio::post(io_, [this] { work_.reset(); });
  thread_.join();
}

Status MemoryExchange::start_thread() {
  if (thread_.joinable()) return {};
  attempts_ = std::make_shared<Attempts>(*this);
  try {
    thread_ = start_quiet_thread("muster-exchange", [this](const std::stop_token&) {
      setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
      io_.run();
    });
  } catch (const std::system_error& error) {
    return failure(ErrorCode::kUnavailable, "{}", error.what());
  }
  return {};
}

Expected<std::int32_t> MemoryExchange::listen(const std::string& address) {
  if (Status started = start_thread(); !started) return std::unexpected(started.error());
  auto listener = net::Listener::open(io_.get_executor(), address, 0);
  if (!listener) return std::unexpected(listener.error());
  const std::int32_t port = (*listener)->port();
  asio::post(io_, [this, shared = std::shared_ptr<net::Listener>(*std::move(listener))] {
    attempts_->listen(shared);
  });
  return port;
}

void MemoryExchange::begin(const std::string& job, Attempt attempt,
                           const std::vector<wire::Neighbour>& neighbours) {
  if (const Status started = start_thread(); !started)
    return setting_.on_remark("this node copies nothing from or to the memory of other nodes: " +
                              started.error().message());
  RankRange kept;
  for (const wire::Neighbour& each : neighbours)
    if (each.kept_count > 0) kept = {each.first_rank, each.kept_count};
  setting_.slots.begin_copying(attempt, kept);
  const std::uint64_t number = ++begun_;
  at_hand_ = number;
  fetching_ = std::ranges::any_of(neighbours, &wire::Neighbour::has_ours) ? number : 0;
  if (!is_fetching()) setting_.slots.stop_fetching(attempt);
  asio::post(
      io_, [this, number, job, attempt, neighbours] { attempts_->begin(number, job, attempt, neighbours); });
}

void MemoryExchange::saved(Rank rank, std::uint64_t step) {
  if (!thread_.joinable()) return;
  asio::post(io_, [this, rank, step] {
    std::optional<Copy> newest;
    for (const Copy& each : setting_.slots.held())
      if (each.rank == rank && each.id.step == step && (!newest || is_newer(each.id, newest->id)))
        newest = each;
    if (newest) attempts_->saved(*newest);
  });
}

void MemoryExchange::end() {
  at_hand_ = fetching_ = 0;
  if (thread_.joinable()) asio::post(io_, [this] { attempts_->end(); });
}

}  // namespace muster::agent
