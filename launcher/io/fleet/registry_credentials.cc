#include "launcher/io/fleet/registry_credentials.h"

#include <cstdlib>
#include <optional>

#include "common/base/file.h"
#include "common/base/home_directory.h"
#include "common/base/text.h"
#include "launcher/core/text/foreign_json.h"
#include "launcher/io/fleet/host_shell.h"

namespace muster::launcher {

namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr Duration kHelperLimit = std::chrono::seconds(30);

// Base64 of RFC 4648, with the alphabet of its section 5.
std::string base64url(std::string_view bytes) {
  std::string text;
  std::uint32_t bits = 0;
  int count = 0;
  const auto put = [&text](std::uint32_t value) {
    const char letter = kLetters[value & 63];
    text += letter == '+' ? '-' : letter == '/' ? '_' : letter;
  };
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) put(bits >> (count - 6));
  }
  if (count > 0) put(bits << (6 - count));
  while (text.size() % 4 != 0) text += '=';
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char letter : text) {
    const std::size_t value = kLetters.find(letter);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8));
  }
  return bytes;
}

std::string header(const std::string& user, const std::string& password, const std::string& registry) {
  // A helper can return an identity token. Then the user's name in its answer is "<token>".
  const Json token = {{"identitytoken", password}, {"serveraddress", registry}};
  const Json login = {{"username", user}, {"password", password}, {"serveraddress", registry}};
  return base64url((user == "<token>" ? token : login).dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Runs `docker-credential-NAME get`, which reads the registry from stdin and prints JSON on stdout.
awaitable<Expected<std::string>> ask_helper(std::string helper, std::string registry, std::string errors) {
  const std::string program = "docker-credential-" + helper;
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  const auto shell =
      ChildShell::start(co_await asio::this_coro::executor, {program, "get"}, errors, descriptors);
  if (!shell) co_return std::unexpected(shell.error());
  const TimePoint deadline = Clock::now() + kHelperLimit;
  (void)co_await (*shell)->write(registry, kHelperLimit);
  (*shell)->end_input();
  std::string text;
  for (;;) {
    const auto line = co_await (*shell)->read_line(deadline);
    if (!line) break;
    text += *line + "\n";
  }
  const auto code = co_await (*shell)->ended(deadline);
  const Json json = parse_json(text);
  if (code && *code == 0 && !text_in(json, "Secret").empty())
    co_return header(text_in(json, "Username"), text_in(json, "Secret"), registry);
  if (code && text.contains("credentials not found")) co_return std::string();
  co_return failure(ErrorCode::kUnavailable, "{} has no credentials for {}: run `docker login {}` again",
                    program, registry, registry);
}

// Returns the key that the registry has in config.json. Docker Hub has a special one.
std::string key_of(const std::string& registry) {
  return registry == "docker.io" ? "https://index.docker.io/v1/" : registry;
}

}  // namespace

std::string docker_config_directory() {
  if (const char* directory = std::getenv("DOCKER_CONFIG"); directory != nullptr && *directory != '\0')
    return directory;
  const std::string home = home_directory();
  return home.empty() ? "" : home + "/.docker";
}

awaitable<Expected<std::string>> registry_auth(std::string directory, std::string registry,
                                               std::string errors) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  const std::string path = directory + "/config.json";
  const auto text = read_regular_file(path, kMostBytes);
  if (!text && text.error().code() == ErrorCode::kNotFound) co_return std::string();
  if (!text) co_return std::unexpected(text.error());
  const Json config = parse_json(*text);
  if (!config.is_object()) co_return failure(ErrorCode::kCorrupt, "{} is not a JSON object", path);
  const std::string key = key_of(registry);
  std::string helper = text_in(config, "credsStore");
  if (const std::string own = text_in(member(config, "credHelpers"), key); !own.empty()) helper = own;
  if (!helper.empty()) co_return co_await ask_helper(std::move(helper), key, std::move(errors));
  const Json& logins = member(config, "auths");
  for (const std::string& name : {key, "https://" + key, "http://" + key, "https://" + key + "/v1/"}) {
    const Json& login = member(logins, name);
    if (const std::string token = text_in(login, "identitytoken"); !token.empty())
      co_return header("<token>", token, key);
    const auto pair = from_base64(text_in(login, "auth"));
    const std::size_t colon = pair ? pair->find(':') : std::string::npos;
    if (colon != std::string::npos) co_return header(pair->substr(0, colon), pair->substr(colon + 1), key);
  }
  co_return std::string();
}

}  // namespace muster::launcher
