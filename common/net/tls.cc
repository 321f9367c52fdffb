#include "common/net/tls.h"

#include <cerrno>
#include <cstring>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include "common/base/check.h"

namespace muster::net {

namespace {

constexpr unsigned char kCipher[] = {0x13,
                                     0x01};  // TLS_AES_128_GCM_SHA256, the one with the hash of external keys

std::string openssl_text() {
  const unsigned long code = ERR_get_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "protocol error" : reason;
}

// A TLS 1.3 session that carries the external key; OpenSSL's form of a pre-shared key. Caller owns it.
SSL_SESSION* session_for(SSL* ssl, const Key& key) {
  SSL_SESSION* session = SSL_SESSION_new();
  CHECK(session != nullptr);
  CHECK(SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1);
  CHECK(SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kCipher)) == 1);
  CHECK(SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1);
  return session;
}

}  // namespace

struct TlsSession::State {
  SSL_CTX* context = nullptr;
  SSL* ssl = nullptr;
  BIO* from_peer = nullptr;  // owned by ssl
  BIO* to_peer = nullptr;    // owned by ssl
  FindKey find_key;          // of a server
  std::string identity;
  Key key{};  // of a client

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    SSL_free(ssl);
    SSL_CTX_free(context);
    OPENSSL_cleanse(key.data(), key.size());
  }

  static State& of(SSL* ssl) { return *static_cast<State*>(SSL_get_app_data(ssl)); }

  static int find_session(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
    State& state = of(ssl);
    const std::string_view name(reinterpret_cast<const char*>(identity), size);
    *session = nullptr;
    if (const auto key = state.find_key(name)) {
      state.identity = name;
      *session = session_for(ssl, *key);
    }
    return 1;  // without a session the handshake fails for want of a certificate: what a stranger gets
  }

  static int use_session(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* size,
                         SSL_SESSION** session) {
    State& state = of(ssl);
    *identity = reinterpret_cast<const unsigned char*>(state.identity.data());
    *size = state.identity.size();
    *session = session_for(ssl, state.key);
    return 1;
  }

  void set_up(const SSL_METHOD* method) {
    context = SSL_CTX_new(method);
    CHECK(context != nullptr);
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_num_tickets(context, 0);
    CHECK(SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1);
    SSL_CTX_set_psk_find_session_callback(context, find_session);
    SSL_CTX_set_psk_use_session_callback(context, use_session);
    ssl = SSL_new(context);
    from_peer = BIO_new(BIO_s_mem());
    to_peer = BIO_new(BIO_s_mem());
    CHECK(ssl != nullptr && from_peer != nullptr && to_peer != nullptr);
    SSL_set_bio(ssl, from_peer, to_peer);
    SSL_set_app_data(ssl, this);
  }
};

Key make_key() {
  Key key;
  CHECK(RAND_bytes(key.data(), static_cast<int>(key.size())) == 1, "no random numbers");
  return key;
}

Key derive_key(const Key& secret, std::string_view identity) {
  Key key;
  const std::string message = "muster agent key:" + std::string(identity);
  unsigned int size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(message.data()), message.size(), key.data(), &size);
  CHECK(size == key.size(), "HMAC-SHA256 gave {} bytes", size);
  return key;
}

std::string to_hex(const Key& key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : key) hex.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return hex;
}

std::optional<Key> key_from_hex(std::string_view hex) {
  Key key;
  if (hex.size() != 2 * key.size()) return std::nullopt;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const char digit = hex[i];
    int value = 0;
    if (digit >= '0' && digit <= '9') {
      value = digit - '0';
    } else if (digit >= 'a' && digit <= 'f') {
      value = digit - 'a' + 10;
    } else {
      return std::nullopt;
    }
    key[i / 2] = static_cast<unsigned char>(i % 2 == 0 ? value << 4 : key[i / 2] | value);
  }
  return key;
}

TlsSession::TlsSession(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsSession::~TlsSession() = default;

std::unique_ptr<TlsSession> TlsSession::server(FindKey find_key) {
  auto state = std::make_unique<State>();
  state->find_key = std::move(find_key);
  state->set_up(TLS_server_method());
  SSL_set_accept_state(state->ssl);
  return std::unique_ptr<TlsSession>(new TlsSession(std::move(state)));
}

std::unique_ptr<TlsSession> TlsSession::client(std::string identity, const Key& key) {
  auto state = std::make_unique<State>();
  state->identity = std::move(identity);
  state->key = key;
  state->set_up(TLS_client_method());
  // No certificate is trusted, so that a server which shows one instead of using the key is refused.
  SSL_set_verify(state->ssl, SSL_VERIFY_PEER, nullptr);
  SSL_set_connect_state(state->ssl);
  SSL_do_handshake(state->ssl);  // writes the first message; the rest comes with receive()
  return std::unique_ptr<TlsSession>(new TlsSession(std::move(state)));
}

Status TlsSession::receive(std::string_view encrypted, std::string& plain) {
  CHECK(BIO_write(state_->from_peer, encrypted.data(), static_cast<int>(encrypted.size())) ==
        static_cast<int>(encrypted.size()));
  char buffer[16384];
  for (;;) {
    const int got = SSL_read(state_->ssl, buffer, sizeof buffer);
    if (got > 0) {
      plain.append(buffer, static_cast<std::size_t>(got));
      continue;
    }
    const int why = SSL_get_error(state_->ssl, got);
    if (why == SSL_ERROR_WANT_READ) return {};
    if (why == SSL_ERROR_ZERO_RETURN)
      return failure(ErrorCode::kUnavailable, "the peer closed the connection");
    return failure(established() ? ErrorCode::kCorrupt : ErrorCode::kPermission, "TLS: {}", openssl_text());
  }
}

Status TlsSession::send(std::string_view plain) {
  CHECK(established(), "nothing can be sent before the handshake");
  if (plain.empty()) return {};
  const int put = SSL_write(state_->ssl, plain.data(), static_cast<int>(plain.size()));
  if (put != static_cast<int>(plain.size())) return failure(ErrorCode::kCorrupt, "TLS: {}", openssl_text());
  return {};
}

std::string TlsSession::take_output() {
  std::string out(BIO_ctrl_pending(state_->to_peer), '\0');
  if (!out.empty()) BIO_read(state_->to_peer, out.data(), static_cast<int>(out.size()));
  return out;
}

bool TlsSession::established() const {
  return SSL_is_init_finished(state_->ssl) == 1 && SSL_session_reused(state_->ssl) == 1;
}

const std::string& TlsSession::identity() const {
  return state_->identity;
}

}  // namespace muster::net
