// A TLS server with a self-made certificate instead of a key: an impostor of the launcher.
//
// Takes and gives bytes, as TlsSession does. For tests only.
#pragma once

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string>

#include "common/base/check.h"

namespace muster {

class CertificateServer {
 public:
  CertificateServer() {
    EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
    X509* certificate = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    CHECK(X509_sign(certificate, key, nullptr) > 0);
    context_ = SSL_CTX_new(TLS_server_method());
    CHECK(SSL_CTX_use_certificate(context_, certificate) == 1);
    CHECK(SSL_CTX_use_PrivateKey(context_, key) == 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    ssl_ = SSL_new(context_);
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(ssl_);
  }
  CertificateServer(const CertificateServer&) = delete;
  CertificateServer& operator=(const CertificateServer&) = delete;
  ~CertificateServer() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  void receive(const std::string& bytes) {
    BIO_write(SSL_get_rbio(ssl_), bytes.data(), static_cast<int>(bytes.size()));
    SSL_do_handshake(ssl_);
  }
  std::string take_output() {
    std::string bytes(BIO_ctrl_pending(SSL_get_wbio(ssl_)), '\0');
    if (!bytes.empty()) BIO_read(SSL_get_wbio(ssl_), bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  // True once a client has completed the handshake.
  bool accepted() const { return SSL_is_init_finished(ssl_) == 1; }

 private:
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
};

}  // namespace muster
