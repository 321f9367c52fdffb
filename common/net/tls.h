// TLS 1.3 between launcher and agent, authenticated on both sides by a pre-shared key and nothing else.
//
// A job has one secret; each agent's key is derived from it for that agent's own name, so that a stolen key
// opens one door. TlsSession turns bytes into bytes and does no I/O: Connection moves them. No certificates,
// no earlier TLS, no resumption.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster::net {

using Key = std::array<unsigned char, 32>;

// From the kernel's random numbers.
Key make_key();
// HMAC-SHA256 of the identity, keyed with the job's secret. An identity is "job/role/node".
Key derive_key(const Key& secret, std::string_view identity);
std::string to_hex(const Key& key);
std::optional<Key> key_from_hex(std::string_view hex);

class TlsSession {
 public:
  // Who may connect: the key of an identity, or nothing.
  using FindKey = std::function<std::optional<Key>(std::string_view identity)>;
  static std::unique_ptr<TlsSession> server(FindKey find_key);
  static std::unique_ptr<TlsSession> client(std::string identity, const Key& key);
  ~TlsSession();

  // Takes bytes from the peer; what they decrypt to is appended to `plain`. kPermission: the handshake
  // failed.
  Status receive(std::string_view encrypted, std::string& plain);
  // Encrypts for the peer. Only when established().
  Status send(std::string_view plain);
  // What is to be sent now, handshake included; the session forgets it.
  std::string take_output();
  // The handshake is over and the peer proved to have the key.
  bool established() const;
  // Of the client, as the server knows it once established.
  const std::string& identity() const;

 private:
  struct State;
  explicit TlsSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::net
