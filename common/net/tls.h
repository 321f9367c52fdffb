// TLS 1.3 between launcher and agent; a pre-shared key authenticates both sides.
//
// Each agent has its own key, random or derived from a secret of the job and the agent's name, so that a
// stolen key opens one agent's connection only. TlsSession turns bytes into bytes and does no I/O: Connection
// moves them. No certificates, no earlier TLS, no resumption. The code that needs OpenSSL is in a module,
// libmuster_tls.so, because most jobs use no TLS and should not start more slowly for it.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster::net {

using Key = std::array<unsigned char, 32>;

// From the kernel's random number generator.
Key make_key();
std::string to_hex(const Key& key);
std::optional<Key> key_from_hex(std::string_view hex);

class TlsSession {
 public:
  // Returns the key of an identity that may connect, otherwise nothing.
  using FindKey = std::function<std::optional<Key>(std::string_view identity)>;
  virtual ~TlsSession() = default;

  // Takes bytes from the peer and appends the decrypted bytes to `plain`. kPermission: the handshake failed.
  virtual Status receive(std::string_view encrypted, std::string& plain) = 0;
  // Encrypts `plain` for the peer. Call it only when established().
  virtual Status send(std::string_view plain) = 0;
  // Returns the bytes to send now, including those of the handshake, and forgets them.
  virtual std::string take_output() = 0;
  // Returns whether the handshake is over and the peer has proved to have the key.
  virtual bool established() const = 0;
  // Returns the client's identity, which the server knows once established().
  virtual const std::string& identity() const = 0;
};

// The interface of the module. No exception leaves it.
class Tls {
 public:
  // Loads the module at the first call; it stays until the program ends. An error names the file.
  static Expected<const Tls*> load();
  // Returns the path where `program` looks for the module, without ".." in it.
  static std::string file_beside(const std::string& program);

  // Returns the key that two agents share: HMAC-SHA256 of a label and the identity (peer_identity() in
  // common/wire/agent_identity.h), keyed with the job's secret. make_key() makes the launcher's key for an
  // agent.
  virtual Key derive_key(const Key& secret, std::string_view identity) const = 0;
  // SHA-256 of the parts, one after the other.
  virtual Key digest(std::initializer_list<std::string_view> parts) const = 0;
  virtual std::unique_ptr<TlsSession> server(TlsSession::FindKey find_key) const = 0;
  virtual std::unique_ptr<TlsSession> client(std::string identity, const Key& key) const = 0;

 protected:
  ~Tls() = default;
};

}  // namespace muster::net

// The only function that the module exports.
extern "C" const muster::net::Tls* muster_tls();
