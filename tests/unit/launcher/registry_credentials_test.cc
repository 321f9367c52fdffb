#include "launcher/io/fleet/registry_credentials.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>

#include "common/base/file.h"
#include "tests/scratch_directory.h"

namespace muster::launcher {
namespace {

using testing::HasSubstr;

constexpr const char* kRegistry = "r.io:5000";
// {"password":"a:b?>~ÿ","serveraddress":"r.io:5000","username":"ada"} in base64, of RFC 4648, section 5
constexpr const char* kAda =
    "eyJwYXNzd29yZCI6ImE6Yj8-fsO_Iiwic2VydmVyYWRkcmVzcyI6InIuaW86NTAwMCIsInVzZXJuYW1lIjoiYWRhIn0=";
// {"password":"hub","serveraddress":"https://index.docker.io/v1/","username":"bob"}
constexpr const char* kBobOfTheHub =
    "eyJwYXNzd29yZCI6Imh1YiIsInNlcnZlcmFkZHJlc3MiOiJodHRwczovL2luZGV4LmRvY2tlci5pby92MS8iLCJ1c2VybmFtZSI6ImJv"
    "YiJ9";
// {"identitytoken":"tok","serveraddress":"r.io:5000"}
constexpr const char* kToken = "eyJpZGVudGl0eXRva2VuIjoidG9rIiwic2VydmVyYWRkcmVzcyI6InIuaW86NTAwMCJ9";
// {"password":"kept","serveraddress":"r.io:5000","username":"eve"}
constexpr const char* kEve =
    "eyJwYXNzd29yZCI6ImtlcHQiLCJzZXJ2ZXJhZGRyZXNzIjoici5pbzo1MDAwIiwidXNlcm5hbWUiOiJldmUifQ==";

class RegistryCredentials : public testing::Test {
 protected:
  RegistryCredentials() : path_(std::getenv("PATH")) {
    setenv("PATH", (scratch_.path().string() + ":" + path_).c_str(), 1);
  }
  ~RegistryCredentials() override { setenv("PATH", path_.c_str(), 1); }
  void config(const std::string& text) const { std::ofstream(scratch_ / "config.json") << text; }
  void helper(const std::string& name, const std::string& script) const {
    const std::string program = scratch_ / ("docker-credential-" + name);
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  Expected<std::string> auth(const std::string& registry = kRegistry) const {
    asio::io_context context;
    std::optional<Expected<std::string>> found;
    asio::co_spawn(
        context, registry_auth(scratch_.path(), registry, scratch_ / "errors"),
        [&found](const std::exception_ptr&, Expected<std::string> answer) { found = std::move(answer); });
    context.run();
    return found.value();
  }

  ScratchDirectory scratch_;

 private:
  std::string path_;
};

TEST_F(RegistryCredentials, AreEmptyWithoutALogin) {
  EXPECT_EQ(auth().value(), "");
  for (const char* text : {"{}", R"({"auths":{}})", R"({"auths":{"other:5000":{"auth":"YTpi"}}})",
                           R"({"auths":{"r.io:5000":{}}})", R"({"auths":[]})"}) {
    config(text);
    EXPECT_EQ(auth().value(), "") << text;
  }
}

TEST_F(RegistryCredentials, AreReadFromTheFileOfDockerLogin) {
  for (const char* key : {"r.io:5000", "https://r.io:5000", "http://r.io:5000", "https://r.io:5000/v1/"}) {
    config(std::string(R"({"auths":{")") + key + R"(":{"auth":"YWRhOmE6Yj8+fsO/"}}})");
    EXPECT_EQ(auth().value(), kAda) << key;
  }
  config(R"({"auths":{"https://index.docker.io/v1/":{"auth":"Ym9iOmh1Yg=="}}})");
  EXPECT_EQ(auth("docker.io").value(), kBobOfTheHub);
  EXPECT_EQ(auth().value(), "");
}

TEST_F(RegistryCredentials, MayBeAnIdentityToken) {
  config(R"({"auths":{"r.io:5000":{"auth":"YWRhOg==","identitytoken":"tok"}}})");
  EXPECT_EQ(auth().value(), kToken);
  config(R"({"credsStore":"safe"})");
  helper("safe", R"(echo '{"Username":"<token>","Secret":"tok"}')");
  EXPECT_EQ(auth().value(), kToken);
}

TEST_F(RegistryCredentials, ComeFromTheNamedHelper) {
  helper("safe",
         R"sh([ "$1" = get ] && [ "$(cat)" = r.io:5000 ] && echo '{"Username":"eve","Secret":"kept"}')sh");
  helper("other", "echo broken >&2; exit 1");
  config(R"({"auths":{"r.io:5000":{}},"credsStore":"safe"})");
  EXPECT_EQ(auth().value(), kEve);
  config(R"({"credsStore":"other","credHelpers":{"r.io:5000":"safe"}})");
  EXPECT_EQ(auth().value(), kEve) << "the registry's own helper comes first";
  config(R"({"credsStore":"safe","credHelpers":{"r.io:5000":"other"}})");
  const auto broken = auth();
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message(),
            "docker-credential-other has no credentials for r.io:5000: run `docker login r.io:5000` again");
  EXPECT_THAT(read_file(scratch_ / "errors", 1000).value(), HasSubstr("broken"));
}

TEST_F(RegistryCredentials, AreEmptyIfTheHelperHasNone) {
  config(R"({"credsStore":"safe"})");
  helper("safe", "echo credentials not found in native keychain; exit 1");
  EXPECT_EQ(auth().value(), "");
}

TEST_F(RegistryCredentials, CannotBeReadFromBrokenFiles) {
  for (const char* text : {"", "{", "[]", "7"}) {
    config(text);
    ASSERT_FALSE(auth()) << text;
    EXPECT_THAT(auth().error().message(), HasSubstr("config.json is not a JSON object")) << text;
  }
  config(R"({"auths":{"r.io:5000":{"auth":"*"}}})");
  EXPECT_EQ(auth().value(), "");
  config(R"({"credsStore":"missing"})");
  ASSERT_FALSE(auth());
  EXPECT_THAT(auth().error().message(), HasSubstr("docker-credential-missing"));
}

TEST_F(RegistryCredentials, AreReadFromTheUsersDirectory) {
  setenv("DOCKER_CONFIG", "/somewhere", 1);
  EXPECT_EQ(docker_config_directory(), "/somewhere");
  unsetenv("DOCKER_CONFIG");
  EXPECT_EQ(docker_config_directory(), std::string(std::getenv("HOME")) + "/.docker");
}

}  // namespace
}  // namespace muster::launcher
