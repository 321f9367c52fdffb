#include "bench/store/store_client.h"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "agent/core/store/store_wire.h"
#include "common/base/check.h"

namespace muster::bench {

using agent::StoreCommand;

StoreClient::StoreClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  CHECK(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "{}",
        std::strerror(errno));
  begin(static_cast<unsigned char>(StoreCommand::kValidate));
  request_.append(reinterpret_cast<const char*>(&agent::kStoreMagic), sizeof agent::kStoreMagic);
  send();
  begin(static_cast<unsigned char>(StoreCommand::kPing));
  const std::uint32_t nonce = 42;
  request_.append(reinterpret_cast<const char*>(&nonce), sizeof nonce);
  send();
  std::uint32_t answer = 0;
  receive(&answer, sizeof answer);
  CHECK(answer == nonce, "the ping returned {}", answer);
}

void StoreClient::set(std::string_view key, std::string_view value) {
  begin(static_cast<unsigned char>(StoreCommand::kSet));
  put(key);
  put(value);
  send();
}

std::string StoreClient::get(std::string_view key) {
  wait(key);
  begin(static_cast<unsigned char>(StoreCommand::kGet));
  put(key);
  send();
  std::uint64_t size = 0;
  receive(&size, sizeof size);
  CHECK(size <= agent::StoreLimits{}.value_bytes, "got a value of {} bytes", size);
  std::string value(size, '\0');
  receive(value.data(), size);
  return value;
}

std::int64_t StoreClient::add(std::string_view key, std::int64_t delta) {
  begin(static_cast<unsigned char>(StoreCommand::kAdd));
  put(key);
  request_.append(reinterpret_cast<const char*>(&delta), sizeof delta);
  send();
  std::int64_t total = 0;
  receive(&total, sizeof total);
  return total;
}

void StoreClient::wait(std::string_view key) {
  begin(static_cast<unsigned char>(StoreCommand::kWait));
  const std::uint64_t count = 1;
  request_.append(reinterpret_cast<const char*>(&count), sizeof count);
  put(key);
  send();
  pollfd ready{socket_.get(), POLLIN, 0};
  CHECK(::poll(&ready, 1, 60000) == 1, "no answer to a wait");
  char answer = -1;
  receive(&answer, 1);
  CHECK(answer == agent::kStopWaiting, "a wait was answered by {}", static_cast<int>(answer));
}

void StoreClient::begin(unsigned char command) {
  request_.assign(1, static_cast<char>(command));
}

void StoreClient::put(std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  request_.append(reinterpret_cast<const char*>(&size), sizeof size);
  request_.append(bytes);
}

void StoreClient::send() {
  const ssize_t sent = ::send(socket_.get(), request_.data(), request_.size(), MSG_NOSIGNAL);
  CHECK(sent == static_cast<ssize_t>(request_.size()), "sent {} of {}: {}", sent, request_.size(),
        std::strerror(errno));
}

void StoreClient::receive(void* bytes, std::size_t size) {
  const ssize_t received = size == 0 ? 0 : ::recv(socket_.get(), bytes, size, MSG_WAITALL);
  CHECK(received == static_cast<ssize_t>(size), "received {} of {}: {}", received, size,
        std::strerror(errno));
}

}  // namespace muster::bench
