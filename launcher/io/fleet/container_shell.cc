#include "launcher/io/fleet/container_shell.h"

#include <array>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "launcher/io/fleet/wait_limit.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kPieceBytes = 64 << 10;
constexpr int kKilled = 137;
// If the kernel killed a process for lack of memory, and the container ended within this time after that, the
// lack of memory is the cause.
constexpr Duration kOutOfMemoryBefore = std::chrono::seconds(2);

}  // namespace

struct ContainerShell::Container {
  Container(const DockerEngine& its_engine, std::string its_id, DockerEngine::Streams streams,
            net::Socket end, UniqueFd file)
      : engine(its_engine),
        id(std::move(its_id)),
        outside(std::move(streams.socket)),
        early(std::move(streams.early)),
        inside(std::move(end)),
        messages(std::move(file)),
        over(inside.get_executor(), TimePoint::max()) {}

  DockerEngine engine;
  std::string id;
  UnixSocket outside;  // the engine's, with a header before each piece of output
  std::string early;   // bytes already read from `outside`
  net::Socket inside;  // the shell's other end
  UniqueFd messages;
  asio::steady_timer over;            // cancelled when the container has ended
  std::optional<Expected<int>> code;  // the container's exit code; an error if the engine went away
  TimePoint ends_since{};
  TimePoint out_of_memory_at{};  // the latest time

  void ends() {
    if (ends_since == TimePoint()) ends_since = Clock::now();
  }
  void close() {
    boost::system::error_code ignored;
    outside.close(ignored);
    inside.close(ignored);
  }
};

namespace {

using Container = ContainerShell::Container;
using Held = std::shared_ptr<Container>;

awaitable<bool> read_exactly(Container& container, char* to, std::size_t count) {
  const std::size_t had = std::min(count, container.early.size());
  container.early.copy(to, had);
  container.early.erase(0, had);
  boost::system::error_code error;
  if (had < count)
    co_await asio::async_read(container.outside, asio::buffer(to + had, count - had),
                              asio::redirect_error(asio::use_awaitable, error));
  co_return !error;
}

// Passes the output of the container on. The engine sends it in pieces. Each piece has a header of 8 bytes.
// The first byte is the stream: 1 is stdout, and 2 is stderr. After it come three zeros, and then the length
// of the piece, big-endian.
awaitable<void> pass_output_on(Held container) {
  std::array<char, 8> header{};
  std::string piece;
  for (;;) {
    const bool more = co_await read_exactly(*container, header.data(), header.size());
    if (!more) break;
    std::size_t left = 0;
    for (std::size_t i = 4; i < header.size(); ++i) left = left << 8 | static_cast<unsigned char>(header[i]);
    while (left > 0) {
      piece.resize(std::min(left, kPieceBytes));
      const bool whole = co_await read_exactly(*container, piece.data(), piece.size());
      if (!whole) break;
      left -= piece.size();
      if (header[0] == 2) {
        (void)write_all(container->messages.get(), piece, "stderr");
        continue;
      }
      boost::system::error_code error;
      co_await asio::async_write(container->inside, asio::buffer(piece),
                                 asio::redirect_error(asio::use_awaitable, error));
    }
    if (left > 0) break;  // the stream has ended
  }
  boost::system::error_code ignored;
  container->inside.shutdown(net::Socket::shutdown_send, ignored);
}

awaitable<void> pass_input_on(Held container) {
  std::string piece(kPieceBytes, '\0');
  for (;;) {
    boost::system::error_code error;
    const std::size_t count = co_await container->inside.async_read_some(
        asio::buffer(piece), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    co_await asio::async_write(container->outside, asio::buffer(piece.data(), count),
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
  }
  boost::system::error_code ignored;
  container->outside.shutdown(UnixSocket::shutdown_send, ignored);
}

awaitable<void> wait_for_end(Held container, std::unique_ptr<DockerEngine::End> end) {
  container->code = co_await end->code();
  container->ends();
  container->over.cancel();
}

awaitable<void> kill_now(Held container) {
  (void)co_await container->engine.ask(DockerEngine::Request::kill(container->id));
}

template <class Task>
void go(const asio::any_io_executor& executor, Task task) {
  asio::co_spawn(executor, std::move(task), asio::detached);
}

}  // namespace

ContainerShell::ContainerShell(Streams& streams, std::shared_ptr<Container> container)
    : HostShell(streams), container_(std::move(container)) {}

awaitable<Expected<std::shared_ptr<ContainerShell>>> ContainerShell::start(DockerEngine& engine,
                                                                           std::string id,
                                                                           std::string errors) {
  const asio::any_io_executor executor = engine.executor();
  auto streams = open_streams(executor, errors);
  if (!streams) co_return std::unexpected(streams.error());
  auto attached = co_await engine.attach(id);
  if (!attached) co_return std::unexpected(attached.error());
  auto end = co_await engine.next_end(id);
  if (!end) co_return std::unexpected(end.error());
  const auto started =
      co_await engine.ask({.verb = "POST", .target = fmt::format("/containers/{}/start", id)});
  if (!started) co_return std::unexpected(started.error());
  if (!started->good()) co_return failure(ErrorCode::kInvalidArgument, "{}", started->message());
  auto container = std::make_shared<Container>(engine, std::move(id), *std::move(attached),
                                               net::adopt_socket(executor, streams->theirs.release()),
                                               std::move(streams->messages));
  go(executor, pass_output_on(container));
  go(executor, pass_input_on(container));
  go(executor, wait_for_end(container, *std::move(end)));
  co_return std::shared_ptr<ContainerShell>(new ContainerShell(*streams, std::move(container)));
}

ContainerShell::~ContainerShell() {
  container_->close();
}

awaitable<Expected<int>> ContainerShell::ended(TimePoint deadline) {
  const Held container = container_;
  while (!container->code) {
    if (Clock::now() >= deadline) co_return failure(ErrorCode::kTimedOut, "it is still running");
    boost::system::error_code ignored;
    const WaitLimit wait(container->over, deadline);
    co_await container->over.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return *container->code;
}

const std::string& ContainerShell::id() const {
  return container_->id;
}

bool ContainerShell::has_ended() const {
  return container_->code.has_value();
}

void ContainerShell::seems_to_end() {
  container_->ends();
}

void ContainerShell::ran_out_of_memory() {
  container_->out_of_memory_at = Clock::now();
}

// Docker reports an out-of-memory event if the kernel kills a process of the container, but the container can
// go on. So the event explains the container's end only if the exit code is 137 and the event came shortly
// before the end. An event after the end also counts, because a busy engine sends events late.
bool ContainerShell::out_of_memory() const {
  const Container& container = *container_;
  return container.code && *container.code && **container.code == kKilled &&
         container.out_of_memory_at != TimePoint() &&
         container.ends_since - container.out_of_memory_at < kOutOfMemoryBefore;
}

std::string ContainerShell::last_error_line() const {
  return out_of_memory() ? "it ran out of memory: --memory is the limit" : HostShell::last_error_line();
}

void ContainerShell::terminate() {
  if (!container_->code) go(container_->over.get_executor(), kill_now(container_));
}

}  // namespace muster::launcher
