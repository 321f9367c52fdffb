#include "agent/io/mpi/pmi_server.h"

#include <cerrno>
#include <sys/socket.h>

#include "common/base/log.h"

namespace muster::agent {

namespace {

constexpr std::size_t kMostLineBytes = std::size_t{64} << 10;

}  // namespace

Expected<std::shared_ptr<PmiServer>> PmiServer::open(const asio::any_io_executor& executor,
                                                     const wire::PrepareAttempt& plan, std::string name,
                                                     Listener listener) {
  std::shared_ptr<PmiServer> server(new PmiServer(plan, std::move(name), std::move(listener)));
  for (std::int32_t i = 0; i < plan.local_world_size; ++i) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return system_failure("cannot make a socket for PMI", errno);
    server->ends_.emplace_back(ends[1]);
    server->sockets_.emplace_back(executor, ends[0]);
    server->unread_.emplace_back();
  }
  for (std::int32_t i = 0; i < plan.local_world_size; ++i) server->wait(LocalRank(i));
  return server;
}

void PmiServer::wait(LocalRank rank) {
  sockets_.at(index_of(rank))
      .async_wait(asio::posix::stream_descriptor::wait_read,
                  [weak = weak_from_this(), rank](const boost::system::error_code& error) {
                    const auto self = weak.lock();
                    if (!error && self && self->read(rank)) self->wait(rank);
                  });
}

bool PmiServer::read(LocalRank rank) {
  auto& socket = sockets_.at(index_of(rank));
  if (!socket.is_open()) return false;
  std::string& unread = unread_.at(index_of(rank));
  char buffer[4096];
  ssize_t got = 0;
  while (unread.size() <= kMostLineBytes &&
         ((got = recv(socket.native_handle(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0 ||
          (got < 0 && errno == EINTR))) {
    if (got < 0) continue;
    unread.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = unread.find('\n')) != std::string::npos;) {
      const std::string line = unread.substr(0, end);
      unread.erase(0, end + 1);
      carry(ranks_.on_line(rank, line));
      if (!socket.is_open()) return false;
    }
  }
  const bool lives = got < 0 && errno == EAGAIN && unread.size() <= kMostLineBytes;
  if (!lives) socket.close();
  return lives;
}

void PmiServer::carry(const PmiRanks::Effects& effects) {
  if (effects.all_in_barrier) listener_.all_in_barrier();
  for (const PmiRanks::Reply& each : effects.replies) {
    auto& socket = sockets_.at(index_of(each.rank));
    if (!socket.is_open()) continue;
    const std::string line = each.line + "\n";
    const ssize_t sent = send(socket.native_handle(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(line.size())) continue;
    log::warning("local rank {} does not read its PMI server's answers", each.rank);
    socket.close();
  }
  // Only the write side is closed. If the read side were closed, too, SIGPIPE would kill a rank that still
  // writes.
  for (const LocalRank each : effects.ended) {
    if (auto& socket = sockets_.at(index_of(each)); socket.is_open())
      shutdown(socket.native_handle(), SHUT_WR);
  }
  for (const LocalRank each : effects.aborted) listener_.aborted(each);
  for (const wire::MpiAsked& each : effects.asked) listener_.asked(each);
  for (const std::string& each : effects.remarks) listener_.remarked(each);
}

std::string PmiServer::fault_of(LocalRank rank, wire::WorkerExited& exited) {
  read(rank);
  return ranks_.fault_of(rank, exited);
}

void PmiServer::close() {
  for (auto& socket : sockets_) {
    if (socket.is_open()) socket.close();
  }
}

}  // namespace muster::agent
