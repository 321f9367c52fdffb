#include "agent/io/control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <poll.h>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/io/readable.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/net/connect.h"

namespace muster::agent {

namespace {

using Connecting = Expected<std::shared_ptr<net::Connection>>;

constexpr int kKeyLimitMs = 30'000;
constexpr Duration kConnectLimit = std::chrono::seconds(10);
constexpr Duration kConnectLimitBeforeStdio = std::chrono::seconds(2);
constexpr Duration kMoveAfter = std::chrono::seconds(1);  // workers have started by then
constexpr Duration kLastWordsLimit = std::chrono::seconds(1);
constexpr std::string_view kControlByStdio = "control stdio";

Status say(const std::string& line) {
  return write_all(STDOUT_FILENO, line + "\n", "stdout");
}

// Reads the line with the key and not a byte more, because frames may follow it.
std::optional<net::Key> read_key() {
  constexpr std::size_t kLineBytes = 65;  // 64 digits and the newline
  std::string line;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char bytes[kLineBytes];
  while (line.size() < kLineBytes && !line.ends_with('\n')) {
    if (poll(&input, 1, kKeyLimitMs) <= 0) return std::nullopt;
    const ssize_t got = read(STDIN_FILENO, bytes, kLineBytes - line.size());
    if (got <= 0) return std::nullopt;
    line.append(bytes, static_cast<std::size_t>(got));
  }
  if (!line.ends_with('\n')) return std::nullopt;
  line.pop_back();
  return net::key_from_hex(line);
}

// Two tasks share this object. One connects to the launcher. The other waits for the end of stdin.
struct Call {
  explicit Call(const asio::any_io_executor& executor) : input(executor) {}
  asio::posix::stream_descriptor input;
  Connecting result = failure(ErrorCode::kUnavailable, "stdin has ended: the launcher is gone");
};

std::vector<net::Endpoint> listeners_of(const Arguments& arguments) {
  std::vector<net::Endpoint> listeners;
  for (const LauncherAddress& each : arguments.addresses) listeners.push_back({each.address, each.port});
  return listeners;
}

awaitable<void> call_all(std::shared_ptr<Call> call, Arguments arguments, net::Key key) {
  const Duration limit = arguments.stdio ? kConnectLimitBeforeStdio : kConnectLimit;
  call->result =
      co_await net::connect_to_any(listeners_of(arguments), std::move(arguments.identity), key, limit);
  call->input.close();
}

// Waits for stdin. If stdin ends, stops the io_context. If input comes first, returns, and leaves the input
// unread.
awaitable<void> stop_at_end_of_input(std::shared_ptr<Call> call, asio::io_context& io) {
  const bool came = co_await readable(call->input);
  int waiting = 0;
  if (came && ioctl(call->input.native_handle(), FIONREAD, &waiting) == 0 && waiting == 0) io.stop();
}

Connecting connect_over_tls(asio::io_context& io, const Arguments& arguments, const net::Key& key) {
  const auto call = std::make_shared<Call>(io.get_executor());
  boost::system::error_code error;
  call->input.assign(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error);
  if (!error)  // otherwise stdin is a file or /dev/null, whose end cannot be awaited
    asio::co_spawn(io, stop_at_end_of_input(call, io), asio::detached);
  asio::co_spawn(io, call_all(call, arguments, key), asio::detached);
  io.run();
  io.restart();
  return call->result;
}

}  // namespace

Expected<std::shared_ptr<net::Channel>> Control::connect(const Arguments& arguments,
                                                         const ProcessIdentity& self) {
  if (arguments.control_fd)
    return net::Connection::make(net::adopt_socket(io_.get_executor(), *arguments.control_fd), nullptr);
  if (kept_) return open_stdio(arguments);
  const bool calls_first = !arguments.addresses.empty() && !arguments.stdio_first;
  std::string greeting = fmt::format("muster-agent 1 {} {} {}", self.pid, self.start_ticks, kVersion);
  // The two lines are written together, because every write wakes ssh and sshd.
  if (!calls_first) greeting += fmt::format("\n{}", kControlByStdio);
  if (Status said = say(greeting); !said) return std::unexpected(said.error());
  const auto key = read_key();
  if (!key) return failure(ErrorCode::kInvalidArgument, "stdin: expected a key of 64 hexadecimal digits");
  if (calls_first) {
    auto connection = connect_over_tls(io_, arguments, *key);
    if (connection) (void)say("control tcp");  // an error means that nobody reads this line
    if (connection) return *std::move(connection);
    if (!arguments.stdio) return std::unexpected(connection.error());
    log::info("{}; using stdin and stdout instead", connection.error().message());
    if (Status chosen = say(std::string(kControlByStdio)); !chosen) return std::unexpected(chosen.error());
  }
  key_ = *key;
  return open_stdio(arguments);
}

Expected<std::shared_ptr<net::Channel>> Control::open_stdio(const Arguments& arguments) {
  std::shared_ptr<net::Channel> channel;
  if (!stdio_) {
    stdio_ = StdioSocket::open(io_.get_executor());
    channel = net::Connection::make(stdio_->take(), nullptr);
    if (arguments.stays) kept_ = net::KeptStream::make(io_.get_executor(), channel);
  }
  if (kept_) channel = kept_->converse();
  if (!arguments.stdio_first) return channel;
  moving_ = std::make_shared<net::MovingChannel>(std::move(channel));
  return moving_;
}

std::optional<Arguments> Control::next_job() {
  moving_.reset();
  kept_->send_job_over();
  for (;;) {
    if (auto words = kept_->take_next_job()) {
      const auto key = words->empty() ? std::nullopt : net::key_from_hex(words->front());
      if (!key) return std::nullopt;
      words->erase(words->begin());
      auto arguments = parse_arguments(*words);
      if (!arguments || !arguments->stays) return std::nullopt;
      key_ = *key;
      return *std::move(arguments);
    }
    if (kept_->closed() || io_.run_one() == 0) return std::nullopt;
  }
}

awaitable<Status> Control::move(const Arguments& arguments) {
  if (moving_ == nullptr) co_return Status{};
  co_await asio::steady_timer(io_, kMoveAfter).async_wait(asio::use_awaitable);
  auto connection =
      co_await net::connect_to_any(listeners_of(arguments), arguments.identity, key_, kConnectLimit);
  if (connection) {
    moving_->follow_to(*std::move(connection));
  } else if (!arguments.stdio) {
    co_return std::unexpected(connection.error());
  } else {
    log::info("{}; using stdin and stdout instead", connection.error().message());
  }
  co_return Status{};
}

void Control::finish() {
  if (kept_) kept_->close();
  if (stdio_) stdio_->finish(kLastWordsLimit);
}

}  // namespace muster::agent
