#include "launcher/io/fleet/docker_engine.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "launcher/io/fleet/wait_limit.h"

namespace muster::launcher {

namespace {

namespace beast = boost::beast;
namespace http = beast::http;

constexpr int kOldestMinor = 40;  // API 1.40: Docker 19.03, the first with GPUs
constexpr int kNewestMinor = 47;
constexpr std::size_t kMostBufferBytes = 1 << 20;
constexpr std::size_t kMostBodyBytes = 16 << 20;  // of an answer that is kept in memory

// One connection, for one request.
struct Wire {
  explicit Wire(const asio::any_io_executor& executor) : socket(executor) {}
  UnixSocket socket;
  beast::flat_buffer buffer{kMostBufferBytes};
  http::response_parser<http::string_body> parser{};
};

Error error_of(const boost::system::error_code& error, const std::string& path, bool timed_out) {
  if (timed_out)
    return Error(ErrorCode::kTimedOut, fmt::format("the Docker engine at {} does not answer", path));
  if (error == boost::system::errc::permission_denied)
    return Error(ErrorCode::kPermission,
                 fmt::format("no permission to use the Docker engine's socket {}: join the group docker, "
                             "or run with sudo",
                             path));
  if (error == boost::system::errc::no_such_file_or_directory ||
      error == boost::system::errc::connection_refused)
    return Error(
        ErrorCode::kUnavailable,
        fmt::format("no Docker engine answers at {}: start it (`systemctl start docker`), install it "
                    "(docker.io), or set DOCKER_HOST",
                    path));
  const auto& category = error.category();
  const bool http_error = category == make_error_code(http::error::bad_version).category() &&
                          error != http::error::end_of_stream && error != http::error::partial_message;
  if (http_error)
    return Error(ErrorCode::kCorrupt, fmt::format("{} does not speak HTTP: {}", path, error.message()));
  return Error(ErrorCode::kUnavailable, fmt::format("the Docker engine at {} went away", path));
}

class EngineTalk {
 public:
  EngineTalk(Wire& wire, const std::string& path, TimePoint deadline)
      : wire_(wire), path_(path), limit_(wire.socket, deadline) {}

  awaitable<Status> connect() {
    boost::system::error_code error;
    if (path_.size() >= sizeof(sockaddr_un::sun_path))
      co_return failure(ErrorCode::kInvalidArgument, "DOCKER_HOST: {} is too long for a socket's path",
                        path_);
    co_await wire_.socket.async_connect(asio::local::stream_protocol::endpoint(path_),
                                        asio::redirect_error(asio::use_awaitable, error));
    co_return status(error);
  }

  awaitable<Status> send(const DockerEngine::Request& request, const std::string& version, bool upgrade) {
    http::request<http::string_body> message(http::string_to_verb(request.verb), version + request.target,
                                             11);
    message.set(http::field::host, "docker");
    message.set(http::field::user_agent, "muster");
    if (!request.registry_auth.empty()) message.set("X-Registry-Auth", request.registry_auth);
    if (!request.body.empty()) message.set(http::field::content_type, "application/json");
    if (upgrade) {
      message.set(http::field::connection, "Upgrade");
      message.set(http::field::upgrade, "tcp");
    } else {
      message.set(http::field::connection, "close");
    }
    message.body() = request.body;
    message.prepare_payload();
    boost::system::error_code error;
    co_await http::async_write(wire_.socket, message, asio::redirect_error(asio::use_awaitable, error));
    co_return status(error);
  }

  awaitable<Status> read_header() {
    wire_.parser.body_limit(kMostBodyBytes);
    boost::system::error_code error;
    co_await http::async_read_header(wire_.socket, wire_.buffer, wire_.parser,
                                     asio::redirect_error(asio::use_awaitable, error));
    co_return status(error);
  }

  awaitable<Status> read_some() {
    boost::system::error_code error;
    co_await http::async_read_some(wire_.socket, wire_.buffer, wire_.parser,
                                   asio::redirect_error(asio::use_awaitable, error));
    co_return status(error);
  }

  awaitable<Status> read_rest() {
    while (!wire_.parser.is_done()) {
      if (Status read = co_await read_some(); !read) co_return read;
    }
    co_return Status{};
  }

 private:
  Status status(const boost::system::error_code& error) const {
    if (!error) return {};
    return std::unexpected(error_of(error, path_, limit_.expired()));
  }

  Wire& wire_;
  const std::string& path_;
  WaitLimit limit_;
};

class NextEnd final : public DockerEngine::End {
 public:
  NextEnd(std::unique_ptr<Wire> wire, std::string path) : wire_(std::move(wire)), path_(std::move(path)) {}

  awaitable<Expected<int>> code() override {
    EngineTalk talk(*wire_, path_, TimePoint::max());
    if (const Status read = co_await talk.read_rest(); !read) co_return std::unexpected(read.error());
    const auto json = nlohmann::json::parse(wire_->parser.get().body(), nullptr, false);
    if (json.is_object() && json.contains("StatusCode") && json["StatusCode"].is_number_integer())
      co_return json["StatusCode"].get<int>();
    co_return failure(ErrorCode::kUnavailable, "the Docker engine at {} went away", path_);
  }

 private:
  std::unique_ptr<Wire> wire_;
  std::string path_;
};

}  // namespace

Expected<std::string> docker_socket(const char* docker_host) {
  constexpr std::string_view kUnix = "unix://";
  const std::string_view text = docker_host == nullptr ? "" : docker_host;
  if (text.empty()) return "/var/run/docker.sock";
  if (text.starts_with(kUnix) && text.substr(kUnix.size()).starts_with('/'))
    return std::string(text.substr(kUnix.size()));
  return failure(
      ErrorCode::kInvalidArgument,
      "DOCKER_HOST: {} is not a socket on this machine: give unix:///PATH; to use the engines of other hosts, "
      "give --hosts with --image",
      one_line(std::string(text)));
}

std::string DockerEngine::Answer::message() const {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (json.is_object() && json.contains("message") && json["message"].is_string())
    return one_line(json["message"].get<std::string>());
  return body.empty() ? fmt::format("HTTP status {}", status) : one_line(body);
}

awaitable<Status> DockerEngine::negotiate(TimePoint deadline) {
  Wire wire(executor_);
  EngineTalk talk(wire, socket_, deadline);
  if (Status done = co_await talk.connect(); !done) co_return done;
  const Request ping{.verb = "GET", .target = "/_ping"};
  if (Status done = co_await talk.send(ping, "", false); !done) co_return done;
  if (Status done = co_await talk.read_header(); !done) co_return done;
  const std::string spoken(wire.parser.get()["Api-Version"]);
  const auto minor =
      spoken.starts_with("1.") ? parse_number<int>(std::string_view(spoken).substr(2)) : std::nullopt;
  if (!minor || *minor < kOldestMinor)
    co_return failure(ErrorCode::kUnavailable,
                      "the Docker engine at {} speaks API {}, older than 1.{}: install a newer one", socket_,
                      spoken.empty() ? "1.?" : one_line(spoken), kOldestMinor);
  version_ = fmt::format("/v1.{}", std::min(*minor, kNewestMinor));
  co_return Status{};
}

awaitable<Expected<DockerEngine::Answer>> DockerEngine::ask(Request request, Duration limit) {
  const TimePoint deadline = Clock::now() + limit;
  if (version_.empty()) {
    if (const Status agreed = co_await negotiate(deadline); !agreed)
      co_return std::unexpected(agreed.error());
  }
  Wire wire(executor_);
  EngineTalk talk(wire, socket_, deadline);
  Status done = co_await talk.connect();
  if (done) done = co_await talk.send(request, version_, false);
  if (done) done = co_await talk.read_header();
  if (done) done = co_await talk.read_rest();
  if (!done) co_return std::unexpected(done.error());
  auto& response = wire.parser.get();
  co_return Answer{static_cast<int>(response.result_int()), std::move(response.body())};
}

awaitable<Expected<DockerEngine::Answer>> DockerEngine::read_lines(
    Request request, std::function<void(std::string_view)> on_line) {
  if (version_.empty()) {
    const Status agreed = co_await negotiate(Clock::now() + kLimit);
    if (!agreed) co_return std::unexpected(agreed.error());
  }
  Wire wire(executor_);
  EngineTalk talk(wire, socket_, TimePoint::max());
  Status done = co_await talk.connect();
  if (done) done = co_await talk.send(request, version_, false);
  if (done) done = co_await talk.read_header();
  auto& response = wire.parser.get();
  const auto status = static_cast<int>(response.result_int());
  const bool good = status < 400;
  if (done && good) wire.parser.body_limit(boost::none);
  while (done && !wire.parser.is_done()) {
    done = co_await talk.read_some();
    std::string& body = response.body();
    if (!good) continue;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = body.find('\n', begin)) != std::string::npos; begin = end + 1)
      on_line(std::string_view(body).substr(begin, end - begin));
    body.erase(0, begin);
    if (body.size() > kMostBufferBytes)
      co_return failure(ErrorCode::kCorrupt, "{} sent a line of more than 1 MiB", socket_);
  }
  if (!done) co_return std::unexpected(done.error());
  co_return Answer{status, std::move(response.body())};
}

awaitable<Expected<DockerEngine::Streams>> DockerEngine::attach(std::string id) {
  Wire wire(executor_);
  EngineTalk talk(wire, socket_, Clock::now() + kLimit);
  const Request request{
      .verb = "POST", .target = fmt::format("/containers/{}/attach?stream=1&stdin=1&stdout=1&stderr=1", id)};
  Status done = co_await talk.connect();
  if (done) done = co_await talk.send(request, version_, true);
  if (done) done = co_await talk.read_header();
  if (!done) co_return std::unexpected(done.error());
  const auto status = static_cast<int>(wire.parser.get().result_int());
  if (status != 101 && status != 200)
    co_return failure(ErrorCode::kUnavailable, "cannot attach to the container: HTTP status {}", status);
  const auto data = wire.buffer.data();
  std::string early(static_cast<const char*>(data.data()), data.size());
  co_return Streams{std::move(wire.socket), std::move(early)};
}

awaitable<Expected<std::unique_ptr<DockerEngine::End>>> DockerEngine::next_end(std::string id) {
  auto wire = std::make_unique<Wire>(executor_);
  Status done;
  {
    EngineTalk talk(*wire, socket_, Clock::now() + kLimit);
    const Request request{.verb = "POST",
                          .target = fmt::format("/containers/{}/wait?condition=next-exit", id)};
    done = co_await talk.connect();
    if (done) done = co_await talk.send(request, version_, false);
    if (done) done = co_await talk.read_header();
  }
  if (!done) co_return std::unexpected(done.error());
  co_return std::make_unique<NextEnd>(std::move(wire), socket_);
}

}  // namespace muster::launcher
