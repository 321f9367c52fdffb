// Behaviour that a real engine does not show; tests/docker tests the rest on a real one.
#include "launcher/io/fleet/docker_engine.h"

#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <vector>

#include "tests/scratch_directory.h"

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Acceptor = asio::local::stream_protocol::acceptor;

std::string http(const std::string& body, const std::string& head = "200 OK") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", head, body.size(), body);
}

// Answers each request with the given bytes, or without any, and hangs up.
class FakeEngine : public testing::Test {
 protected:
  using Answers = std::function<std::optional<std::string>(const std::string& request)>;

  void answer(Answers answers) {
    answers_ = std::move(answers);
    acceptor_.emplace(context_, asio::local::stream_protocol::endpoint(path()));
    asio::co_spawn(context_, serve(), asio::detached);
  }
  // Answers the ping with API 1.41, and the next request with `bytes`.
  void answer_after_ping(const std::string& bytes) {
    answer([bytes](const std::string& request) {
      return request.contains("/_ping") ? http("OK", "200 OK\r\nApi-Version: 1.41") : bytes;
    });
  }
  std::string path() const { return scratch_ / "socket"; }
  template <class Result>
  Result await(awaitable<Result> task) {
    std::optional<Result> result;
    context_.restart();
    asio::co_spawn(context_, std::move(task), [&](const std::exception_ptr&, Result got) {
      result = std::move(got);
      if (acceptor_) acceptor_->close();
      held_.clear();
    });
    context_.run();
    return std::move(*result);
  }
  Expected<DockerEngine::Answer> asked(Duration limit = DockerEngine::kLimit) {
    DockerEngine engine(context_.get_executor(), path());
    return await(engine.ask({.verb = "GET", .target = "/info"}, limit));
  }
  Expected<DockerEngine::Answer> lines_of(std::vector<std::string>& lines) {
    DockerEngine engine(context_.get_executor(), path());
    return await(engine.read_lines({.verb = "GET", .target = "/events"},
                                   [&lines](std::string_view line) { lines.emplace_back(line); }));
  }
  std::string refused(ErrorCode code) {
    const auto answer = asked();
    if (answer) return "(no error)";
    EXPECT_EQ(answer.error().code(), code);
    return answer.error().message();
  }

  std::vector<std::string> requests_;  // their first lines

 private:
  awaitable<void> serve() {
    for (;;) {
      boost::system::error_code error;
      UnixSocket socket = co_await acceptor_->async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (error) co_return;
      std::string request;
      co_await asio::async_read_until(socket, asio::dynamic_buffer(request), "\r\n\r\n",
                                      asio::redirect_error(asio::use_awaitable, error));
      requests_.push_back(request.substr(0, request.find('\r')));
      const auto bytes = answers_(request);
      if (bytes)
        co_await asio::async_write(socket, asio::buffer(*bytes),
                                   asio::redirect_error(asio::use_awaitable, error));
      else
        held_.push_back(std::move(socket));
    }
  }

  ScratchDirectory scratch_;
  asio::io_context context_;
  Answers answers_;
  std::optional<Acceptor> acceptor_;
  std::vector<UnixSocket> held_;
};

TEST_F(FakeEngine, UsesAnApiVersionThatBothSupport) {
  answer([](const std::string& request) {
    return request.contains("/_ping") ? http("OK", "200 OK\r\nApi-Version: 1.41") : http("{}");
  });
  EXPECT_TRUE(asked());
  EXPECT_THAT(requests_, ElementsAre("GET /_ping HTTP/1.1", "GET /v1.41/info HTTP/1.1"));
}

TEST_F(FakeEngine, UsesTheNewestKnownApiWithANewerEngine) {
  answer([](const std::string& request) {
    return request.contains("/_ping") ? http("OK", "200 OK\r\nApi-Version: 1.99") : http("{}");
  });
  EXPECT_TRUE(asked());
  EXPECT_EQ(requests_.back(), "GET /v1.47/info HTTP/1.1");
}

TEST_F(FakeEngine, ReportsAnEngineThatIsTooOld) {
  answer([](const std::string&) { return http("OK", "200 OK\r\nApi-Version: 1.39"); });
  EXPECT_EQ(
      refused(ErrorCode::kUnavailable),
      fmt::format("the Docker engine at {} speaks API 1.39, older than 1.40: install a newer one", path()));
}

TEST_F(FakeEngine, ReportsAServerThatIsNotAnEngine) {
  EXPECT_THAT(refused(ErrorCode::kUnavailable), HasSubstr("no Docker engine answers at " + path()));
}

TEST_F(FakeEngine, ReportsAServerThatDoesNotSpeakHttp) {
  answer([](const std::string&) { return "SSH-2.0-OpenSSH_9.2\r\n\r\n"; });
  EXPECT_THAT(refused(ErrorCode::kCorrupt), HasSubstr(path() + " does not speak HTTP: "));
}

TEST_F(FakeEngine, ReportsAConnectionThatBreaks) {
  for (const char* bytes :
       {"", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"}) {
    answer_after_ping(bytes);
    EXPECT_EQ(refused(ErrorCode::kUnavailable), fmt::format("the Docker engine at {} went away", path()))
        << bytes;
    std::filesystem::remove(path());
  }
}

TEST_F(FakeEngine, GivesUpWithoutAnAnswer) {
  answer([](const std::string&) { return std::nullopt; });
  const auto answer = asked(std::chrono::milliseconds(20));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::kTimedOut);
  EXPECT_EQ(answer.error().message(), fmt::format("the Docker engine at {} does not answer", path()));
}

TEST_F(FakeEngine, PassesOnErrorMessages) {
  answer_after_ping(http(R"({"message":"no such\nthing"})", "404 Not Found"));
  const auto answer = asked();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->is_missing());
  EXPECT_FALSE(answer->good());
  EXPECT_THAT(answer->message(), testing::Not(HasSubstr("\n")));
  EXPECT_THAT(answer->message(), HasSubstr("no such"));
  EXPECT_EQ((DockerEngine::Answer{.status = 500}).message(), "HTTP status 500");
  EXPECT_EQ((DockerEngine::Answer{.status = 500, .body = "plain"}).message(), "plain");
}

TEST_F(FakeEngine, PassesOnWholeLines) {
  answer_after_ping(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
      "chunked\r\n\r\n4\r\none\n\r\n2\r\ntw\r\n5\r\no\nend\r\n0\r\n\r\n");
  std::vector<std::string> lines;
  const auto answer = lines_of(lines);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_THAT(lines, ElementsAre("one", "two"));
  EXPECT_EQ(answer->body, "end");
}

TEST(DockerSocket, ComesFromTheEnvironment) {
  EXPECT_EQ(docker_socket(nullptr).value(), "/var/run/docker.sock");
  EXPECT_EQ(docker_socket("").value(), "/var/run/docker.sock");
  EXPECT_EQ(docker_socket("unix:///run/mine.sock").value(), "/run/mine.sock");
  for (const char* other : {"tcp://h1:2375", "ssh://h1", "/run/mine.sock", "unix://mine.sock"}) {
    ASSERT_FALSE(docker_socket(other)) << other;
    EXPECT_EQ(docker_socket(other).error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(
        docker_socket(other).error().message(),
        testing::StartsWith(std::string("DOCKER_HOST: ") + other + " is not a socket on this machine"));
  }
}

}  // namespace
}  // namespace muster::launcher
