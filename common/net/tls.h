// TLS 1.3 between launcher and agent, and between agents. A pre-shared key authenticates both sides.
//
// Each connection has its own key, so that a stolen key is of use for one connection only. TlsSession
// encrypts and decrypts bytes, and Connection sends and receives them. There are no certificates, no earlier
// versions of TLS, and no resumption. The code that needs OpenSSL is in a module, libmuster_tls.so, so that
// jobs without TLS, which are most, do not have to load it.
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

// Makes a random key.
Key make_key();
std::string to_hex(const Key& key);
std::optional<Key> key_from_hex(std::string_view hex);

class TlsSession {
 public:
  // Returns the key of an identity that is allowed to connect; nothing for any other.
  using FindKey = std::function<std::optional<Key>(std::string_view identity)>;
  virtual ~TlsSession() = default;

  // Takes bytes from the peer, and appends the decrypted bytes to `plain`. Returns kPermission if the
  // handshake has failed.
  virtual Status receive(std::string_view encrypted, std::string& plain) = 0;
  // Encrypts `plain` for the peer. Call only if established() is true.
  virtual Status send(std::string_view plain) = 0;
  // Returns the bytes to send now, including those of the handshake, and forgets them.
  virtual std::string take_output() = 0;
  // Returns whether the handshake is over, and the peer has proved that it has the key.
  virtual bool established() const = 0;
  // Returns the client's identity. A server knows it once established() is true.
  virtual const std::string& identity() const = 0;
};

// The interface of the module. Its functions throw no exceptions.
class Tls {
 public:
  // Loads the module at the first call; it stays until the program ends. An error names the file.
  static Expected<const Tls*> load();
  // Returns the path where the program with this path looks for the module. The result has no "..".
  static std::string file_beside(const std::string& program);

  // Returns the key that two agents share: HMAC-SHA256 of a label and `identity`, with the job's secret as
  // the key. `identity`: the result of peer_identity() (common/wire/agent_identity.h). The keys for
  // connections to the launcher are random, from make_key().
  virtual Key derive_key(const Key& secret, std::string_view identity) const = 0;
  // Returns the SHA-256 of the parts, one after the other.
  virtual Key digest(std::initializer_list<std::string_view> parts) const = 0;
  virtual std::unique_ptr<TlsSession> server(TlsSession::FindKey find_key) const = 0;
  virtual std::unique_ptr<TlsSession> client(std::string identity, const Key& key) const = 0;

 protected:
  ~Tls() = default;
};

}  // namespace muster::net

// The only function that the module exports.
extern "C" const muster::net::Tls* muster_tls();
