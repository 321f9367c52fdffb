#include "common/net/tls.h"

#include <gtest/gtest.h>

#include "common/wire/agent_identity.h"
#include "tests/certificate_server.h"
#include "tests/loaded_tls.h"

namespace muster::net {
namespace {

constexpr std::string_view kName = "job-1/worker/node3";

struct Pair {
  std::unique_ptr<TlsSession> server;
  std::unique_ptr<TlsSession> client;
  std::string to_server_plain, to_client_plain;

  // Moves bytes both ways until there are none left, or one side fails.
  Status pump() {
    for (;;) {
      const std::string up = client->take_output();
      if (Status status = server->receive(up, to_server_plain); !status) return status;
      const std::string down = server->take_output();
      if (Status status = client->receive(down, to_client_plain); !status) return status;
      if (up.empty() && down.empty()) return {};
    }
  }
};

Pair pair_with(const Key& secret, const Key& client_key, std::string identity = std::string(kName)) {
  auto find = [secret](std::string_view name) -> std::optional<Key> {
    if (!name.starts_with("job-1/")) return std::nullopt;
    return loaded_tls().derive_key(secret, name);
  };
  return {loaded_tls().server(find), loaded_tls().client(std::move(identity), client_key), {}, {}};
}

TEST(Tls, BothSidesAreEstablishedAndTheServerKnowsTheIdentity) {
  const Key secret = make_key();
  Pair pair = pair_with(secret, loaded_tls().derive_key(secret, kName));
  ASSERT_TRUE(pair.pump());
  EXPECT_TRUE(pair.server->established());
  EXPECT_TRUE(pair.client->established());
  EXPECT_EQ(pair.server->identity(), kName);
  const std::string text(100000, 'x');
  ASSERT_TRUE(pair.client->send(text));
  ASSERT_TRUE(pair.server->send("answer"));
  ASSERT_TRUE(pair.pump());
  EXPECT_EQ(pair.to_server_plain, text);
  EXPECT_EQ(pair.to_client_plain, "answer");
}

TEST(Tls, TwoAgentsShareTheirOwnKey) {
  const Key secret = make_key();
  const auto key_of = [&secret](AgentId one, AgentId other) {
    return loaded_tls().derive_key(secret, wire::peer_identity("job", one, other));
  };
  const AgentId a{NodeId(0), Incarnation(1)};
  const AgentId b{NodeId(1), Incarnation(1)};
  EXPECT_EQ(key_of(a, b), key_of(b, a));
  EXPECT_NE(key_of(a, b), key_of(a, {NodeId(2), Incarnation(1)}));
  EXPECT_NE(key_of(a, b), key_of(a, {NodeId(1), Incarnation(2)}));
  EXPECT_NE(key_of(a, b), key_of({NodeId(0), Incarnation(2)}, b));
  EXPECT_NE(key_of(a, b), loaded_tls().derive_key(make_key(), wire::peer_identity("job", a, b)));
}

TEST(Tls, AKeyOfAnotherNodeOpensNothing) {
  const Key secret = make_key();
  Pair pair = pair_with(secret, loaded_tls().derive_key(secret, "job-1/worker/node4"));
  const Status status = pair.pump();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kPermission);
  EXPECT_FALSE(pair.server->established());
}

TEST(Tls, ANameWithoutAKeyIsRefused) {
  const Key secret = make_key();
  Pair pair = pair_with(secret, loaded_tls().derive_key(secret, "job-2/worker/node3"), "job-2/worker/node3");
  EXPECT_FALSE(pair.pump());
  EXPECT_FALSE(pair.server->established());
}

TEST(Tls, AServerWithACertificateInsteadOfTheKeyIsRefused) {
  CertificateServer server;
  const auto client = loaded_tls().client(std::string(kName), make_key());
  std::string plain;
  server.receive(client->take_output());
  const Status status = client->receive(server.take_output(), plain);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kPermission);
  EXPECT_FALSE(client->established());
  server.receive(client->take_output());
  EXPECT_FALSE(server.accepted());
}

TEST(Tls, GarbageIsRefused) {
  auto server = loaded_tls().server([](std::string_view) { return std::nullopt; });
  std::string plain;
  const Status status = server->receive("GET / HTTP/1.1\r\n\r\n", plain);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kPermission);
}

TEST(Tls, NothingCanBeReadOnTheWire) {
  const Key secret = make_key();
  Pair pair = pair_with(secret, loaded_tls().derive_key(secret, kName));
  ASSERT_TRUE(pair.pump());
  ASSERT_TRUE(pair.client->send("a secret word"));
  EXPECT_EQ(pair.client->take_output().find("secret"), std::string::npos);
}

TEST(Key, HexIsParsedAndOtherTextIsNot) {
  const Key key = make_key();
  EXPECT_EQ(key_from_hex(to_hex(key)), key);
  EXPECT_NE(make_key(), key);
  EXPECT_FALSE(key_from_hex("12"));
  EXPECT_FALSE(key_from_hex(std::string(64, 'g')));
  EXPECT_FALSE(key_from_hex(std::string(63, 'a')));
}

}  // namespace
}  // namespace muster::net
