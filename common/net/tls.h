// TLS 1.3 between launcher and agent, authenticated on both sides by a pre-shared key and nothing else.
//
// Each agent has a key of its own, random or derived from a secret of the job for the agent's name, so that a
// stolen key opens one door. TlsSession turns bytes into bytes and does no I/O: Connection moves them. No
// certificates, no earlier TLS, no resumption. What needs OpenSSL lies in a module, libmuster_tls.so, because
// most jobs use no TLS and should not start later for it.
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

// From the kernel's random numbers.
Key make_key();
std::string to_hex(const Key& key);
std::optional<Key> key_from_hex(std::string_view hex);

class TlsSession {
 public:
  // Who may connect: the key of an identity, or nothing.
  using FindKey = std::function<std::optional<Key>(std::string_view identity)>;
  virtual ~TlsSession() = default;

  // Takes bytes from the peer; what they decrypt to is appended to `plain`. kPermission: the handshake
  // failed.
  virtual Status receive(std::string_view encrypted, std::string& plain) = 0;
  // Encrypts `plain` for the peer. To be called only when established().
  virtual Status send(std::string_view plain) = 0;
  // The bytes that are to be sent now, of the handshake too; the session forgets them.
  virtual std::string take_output() = 0;
  // The handshake is over and the peer proved to have the key.
  virtual bool established() const = 0;
  // The client's identity, as the server knows it once established.
  virtual const std::string& identity() const = 0;
};

// The module. Nothing is thrown out of it.
class Tls {
 public:
  // Loads the module at the first call; it stays until the program ends. An error names the file.
  static Expected<const Tls*> load();
  // Where the program in this file looks for its module; without dots.
  static std::string file_beside(const std::string& program);

  // HMAC-SHA256 of the identity, keyed with the job's secret: for two agents that are to share a key
  // (peer_identity() in common/wire/agent_identity.h). The launcher's key for an agent is from make_key().
  virtual Key derive_key(const Key& secret, std::string_view identity) const = 0;
  // SHA-256 of the parts, one after the other.
  virtual Key digest(std::initializer_list<std::string_view> parts) const = 0;
  virtual std::unique_ptr<TlsSession> server(TlsSession::FindKey find_key) const = 0;
  virtual std::unique_ptr<TlsSession> client(std::string identity, const Key& key) const = 0;

 protected:
  ~Tls() = default;
};

}  // namespace muster::net

// The module's one entry.
extern "C" const muster::net::Tls* muster_tls();
