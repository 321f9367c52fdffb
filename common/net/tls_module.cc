// libmuster_tls.so: the part of TLS that needs OpenSSL.
#include <cstdint>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include "common/base/check.h"
#include "common/net/tls.h"

namespace muster::net {

namespace {

constexpr unsigned char kCipher[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256; pre-shared keys need its hash

std::string openssl_text() {
  const unsigned long code = ERR_get_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "protocol error" : reason;
}

// Makes a TLS 1.3 session from the key, because in OpenSSL a pre-shared key has the form of a session. The
// caller owns the session.
SSL_SESSION* session_for(SSL* ssl, const Key& key) {
  SSL_SESSION* session = SSL_SESSION_new();
  CHECK(session != nullptr);
  CHECK(SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1);
  CHECK(SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kCipher)) == 1);
  CHECK(SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1);
  return session;
}

class OpenSslSession : public TlsSession {
 public:
  OpenSslSession(const OpenSslSession&) = delete;
  OpenSslSession& operator=(const OpenSslSession&) = delete;
  ~OpenSslSession() override { SSL_free(ssl_); }

  Status receive(std::string_view encrypted, std::string& plain) override;
  Status send(std::string_view plain) override;
  std::string take_output() override;
  bool established() const override {
    return SSL_is_init_finished(ssl_) == 1 && SSL_session_reused(ssl_) == 1;
  }
  const std::string& identity() const override { return identity_; }

 protected:
  explicit OpenSslSession(SSL_CTX* context);
  template <class Session>
  static Session& of(SSL* ssl) {
    return static_cast<Session&>(*static_cast<OpenSslSession*>(SSL_get_app_data(ssl)));
  }

  SSL* ssl_;
  BIO* from_peer_;  // `ssl_` owns this and the next
  BIO* to_peer_;
  std::string identity_;
};

// Makes the settings that all sessions share. To make them takes as long as a handshake.
SSL_CTX* make_context(const SSL_METHOD* method) {
  SSL_CTX* const context = SSL_CTX_new(method);
  CHECK(context != nullptr);
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);  // idle connections keep 33 KiB less
  CHECK(SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1);
  return context;
}

SSL_CTX* server_context() {
  static SSL_CTX* const context = make_context(TLS_server_method());
  return context;
}

SSL_CTX* client_context() {
  static SSL_CTX* const context = make_context(TLS_client_method());
  return context;
}

OpenSslSession::OpenSslSession(SSL_CTX* context) : ssl_(SSL_new(context)) {
  from_peer_ = BIO_new(BIO_s_mem());
  to_peer_ = BIO_new(BIO_s_mem());
  CHECK(ssl_ != nullptr && from_peer_ != nullptr && to_peer_ != nullptr);
  SSL_set_bio(ssl_, from_peer_, to_peer_);
  SSL_set_app_data(ssl_, this);
}

Status OpenSslSession::receive(std::string_view encrypted, std::string& plain) {
  CHECK(BIO_write(from_peer_, encrypted.data(), static_cast<int>(encrypted.size())) ==
        static_cast<int>(encrypted.size()));
  const bool was_established = established();  // an error changes the result of established()
  char buffer[16384];
  for (;;) {
    const int got = SSL_read(ssl_, buffer, sizeof buffer);
    if (got > 0) {
      plain.append(buffer, static_cast<std::size_t>(got));
      continue;
    }
    const int why = SSL_get_error(ssl_, got);
    if (why == SSL_ERROR_WANT_READ) return {};
    if (why == SSL_ERROR_ZERO_RETURN)
      return failure(ErrorCode::kUnavailable, "the peer closed the connection");
    return failure(was_established ? ErrorCode::kCorrupt : ErrorCode::kPermission, "TLS: {}", openssl_text());
  }
}

Status OpenSslSession::send(std::string_view plain) {
  CHECK(established(), "nothing can be sent before the handshake");
  if (plain.empty()) return {};
  const int put = SSL_write(ssl_, plain.data(), static_cast<int>(plain.size()));
  if (put != static_cast<int>(plain.size())) return failure(ErrorCode::kCorrupt, "TLS: {}", openssl_text());
  return {};
}

std::string OpenSslSession::take_output() {
  std::string out(BIO_ctrl_pending(to_peer_), '\0');
  if (!out.empty()) BIO_read(to_peer_, out.data(), static_cast<int>(out.size()));
  return out;
}

class ServerSession final : public OpenSslSession {
 public:
  explicit ServerSession(FindKey find_key)
      : OpenSslSession(server_context()), find_key_(std::move(find_key)) {
    SSL_set_psk_find_session_callback(ssl_, find_session);
    SSL_set_accept_state(ssl_);
  }

 private:
  static int find_session(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
    auto& self = of<ServerSession>(ssl);
    const std::string_view name(reinterpret_cast<const char*>(identity), size);
    *session = nullptr;
    if (const auto key = self.find_key_(name)) {
      self.identity_ = name;
      *session = session_for(ssl, *key);
    }
    // without a session the handshake fails, because there is no certificate; so a stranger gets an error
    return 1;
  }

  FindKey find_key_;
};

class ClientSession final : public OpenSslSession {
 public:
  ClientSession(std::string identity, const Key& key) : OpenSslSession(client_context()), key_(key) {
    identity_ = std::move(identity);
    SSL_set_psk_use_session_callback(ssl_, use_session);
    // No certificate is trusted. So the handshake fails if the server shows a certificate instead of using
    // the key.
    SSL_set_verify(ssl_, SSL_VERIFY_PEER, nullptr);
    SSL_set_connect_state(ssl_);
    SSL_do_handshake(ssl_);  // writes the first message; receive() does what follows
  }
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;
  ~ClientSession() override { OPENSSL_cleanse(key_.data(), key_.size()); }

 private:
  static int use_session(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* size,
                         SSL_SESSION** session) {
    auto& self = of<ClientSession>(ssl);
    *identity = reinterpret_cast<const unsigned char*>(self.identity_.data());
    *size = self.identity_.size();
    *session = session_for(ssl, self.key_);
    return 1;
  }

  Key key_;
};

class OpenSslTls final : public Tls {
 public:
  Key derive_key(const Key& secret, std::string_view identity) const override {
    Key key;
    const std::string message = "muster agent key:" + std::string(identity);
    unsigned int size = 0;
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(message.data()), message.size(), key.data(), &size);
    CHECK(size == key.size(), "HMAC-SHA256 gave {} bytes", size);
    return key;
  }
  Key digest(std::initializer_list<std::string_view> parts) const override {
    Key digest;
    EVP_MD_CTX* const context = EVP_MD_CTX_new();
    CHECK(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
    for (const std::string_view part : parts) CHECK(EVP_DigestUpdate(context, part.data(), part.size()) == 1);
    CHECK(EVP_DigestFinal_ex(context, digest.data(), nullptr) == 1);
    EVP_MD_CTX_free(context);
    return digest;
  }
  std::unique_ptr<TlsSession> server(TlsSession::FindKey find_key) const override {
    return std::make_unique<ServerSession>(std::move(find_key));
  }
  std::unique_ptr<TlsSession> client(std::string identity, const Key& key) const override {
    return std::make_unique<ClientSession>(std::move(identity), key);
  }
};

}  // namespace

}  // namespace muster::net

extern "C" const muster::net::Tls* muster_tls() {
  // The machine's configuration and the names of all algorithms are not loaded. These sessions do not need
  // them, and to load them takes as long as a handshake.
  constexpr std::uint64_t kLittle = OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ADD_ALL_CIPHERS |
                                    OPENSSL_INIT_NO_ADD_ALL_DIGESTS | OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS |
                                    OPENSSL_INIT_NO_ATEXIT;
  CHECK(OPENSSL_init_ssl(kLittle | OPENSSL_INIT_NO_LOAD_SSL_STRINGS, nullptr) == 1);
  static const muster::net::OpenSslTls tls;
  return &tls;
}
