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
  // Returns the key of this identity. Returns nothing if the identity is not allowed to connect.
  using FindKey = std::function<std::optional<Key>(std::string_view identity)>;
  virtual ~TlsSession() = default;

  // Takes encrypted bytes from the peer. Decrypts them, and appends the result to `plain`. Returns
  // kPermission if the handshake has failed.
  virtual Status receive(std::string_view encrypted, std::string& plain) = 0;
  // Encrypts `plain` for the peer; take_output() then returns the result. Call this only if established() is
  // true.
  virtual Status send(std::string_view plain) = 0;
  // Returns the bytes that have to be sent to the peer now, and forgets them. The bytes of the handshake are
  // among them.
  virtual std::string take_output() = 0;
  // Returns whether the handshake is complete. Then the peer has also proved that it has the key.
  virtual bool established() const = 0;
  // Returns the client's identity. A server knows it once established() is true.
  virtual const std::string& identity() const = 0;
};

// The interface of the module. Its functions throw no exceptions.
class Tls {
 public:
  // Loads the module at the first call. The module then stays until the program ends. If this fails, the
  // error names the file.
  static Expected<const Tls*> load();
  // Returns the path of the module's file for a program with this path. The result has no "..".
  static std::string file_beside(const std::string& program);

  // Returns the key that two agents share. It is the HMAC-SHA256 of a label and `identity`, with the job's
  // secret as the key. peer_identity() (common/wire/agent_identity.h) makes `identity`. The keys for
  // connections to the launcher are made in another way: they are random, from make_key().
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
