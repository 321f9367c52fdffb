#include "launcher/core/fleet/host_script.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"
#include "launcher/core/text/plain_text.h"

namespace muster::launcher {

namespace {

constexpr std::string_view kCache = "$HOME/.cache/muster/agent";
constexpr int kSshFailed = 255;

// Succeeds if the two files in the directory $d are the user's own and have this digest.
std::string check_script(const AgentPlace& place) {
  return fmt::format(R"sh(test -O "$d" && test -O "$d/{0}" && test -O "$d/{1}" && )sh"
                     R"sh(test "$(cat "$d/{0}" "$d/{1}" 2>/dev/null | sha256sum)" = "{2}  -")sh",
                     kAgentFile, place.module, place.digest);
}

// The same without reading files that have not changed since they were found to be right: a file's name says
// when that was, by their inodes, sizes and times of change.
std::string quick_check_script(const AgentPlace& place) {
  return fmt::format(
      R"sh(set -- $(stat -c %i-%s-%.9Z-%u "$d/{0}" "$d/{1}" 2>/dev/null); )sh"
      R"sh({{ test -O "$d" && test -O "$d/{0}" && test -e "$d/checked-$1-$2"; }} || {{ {2} && {{ touch "$d/checked-$1-$2" 2>/dev/null; true; }}; }})sh",
      kAgentFile, place.module, check_script(place));
}

std::string in_quotes(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " \"" + word + '"';
  return text;
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [text](std::string_view part) { return text.contains(part); });
}

// What to do about a message of ssh or of the loader.
std::string advice(const Host& host, std::string_view line) {
  const std::string address = address_of(host);
  if (has_any(line, {"Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"}))
    return fmt::format("connect once by hand, `ssh {}`, and compare the key", address);
  if (has_any(line, {"Permission denied"}))
    return fmt::format("`ssh {} true` must work without a password", address);
  if (has_any(line, {"Could not resolve hostname"})) return "check the name";
  if (has_any(line, {"Connection refused"})) return "check that sshd runs there, and its port";
  if (has_any(line, {"No route to host", "timed out", "Network is unreachable"}))
    return "check that the host is up and can be reached from here";
  if (line.contains("GLIBC_")) return "its C library is older than Muster needs: build Muster there";
  return "";
}

}  // namespace

std::string start_script(const AgentPlace& place, const std::vector<std::string>& arguments) {
  if (!place.path.empty()) return fmt::format("exec \"{}\"{}", place.path, in_quotes(arguments));
  return fmt::format(R"sh(d="{}/{}"; {}; if test $? = 0; then exec "$d/{}"{}; fi; )sh"
                     "echo muster-agent absent $(uname -m); exit {}",
                     kCache, place.digest, quick_check_script(place), kAgentFile, in_quotes(arguments),
                     kAgentAbsent);
}

std::string delivery_script(const AgentPlace& place) {
  return fmt::format(R"sh(umask 077; c="{0}"; mkdir -p "$c" && t=$(mktemp -d "$c/.new.XXXXXX") || exit 1; )sh"
                     R"sh(d="$t"; tar xf - -C "$t" && {2} || {{ rm -rf "$t"; exit 1; }}; )sh"
                     R"sh(mv -T "$t" "$c/{1}" 2>/dev/null && exit 0; d="$c/{1}"; )sh"
                     R"sh(if {2}; then rm -rf "$t"; exit 0; fi; )sh"
                     R"sh(mv -T "$d" "$t/old" && mv -T "$t" "$d" && rm -rf "$d/old")sh",
                     kCache, place.digest, check_script(place));
}

// The 22nd field of /proc/PID/stat is when the process started; the second, in parentheses, may hold
// anything.
std::string kill_script(std::int32_t pid, std::int64_t start_ticks) {
  return fmt::format(
      R"sh(read -r s < /proc/{0}/stat && set -- ${{s##*) }} && shift 19 && test $1 = {1} && kill -9 {0})sh",
      pid, start_ticks);
}

std::vector<std::string> host_shell(const RemoteOptions& options, const Host& host, std::string_view script) {
  std::vector<std::string> words;
  if (options.bootstrap == BootstrapKind::kExec) {
    constexpr std::string_view kHost = "{host}";
    for (std::string word : options.exec) {
      for (std::size_t at = 0; (at = word.find(kHost, at)) != std::string::npos; at += host.name.size())
        word.replace(at, kHost.size(), host.name);
      words.push_back(std::move(word));
    }
    words.insert(words.end(), {"sh", "-c", std::string(script)});
    return words;
  }
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(options.connect_timeout).count();
  words = {"ssh", "-T", "-o", "BatchMode=yes", "-o", fmt::format("ConnectTimeout={}", seconds)};
  if (host.port != 0) words.insert(words.end(), {"-p", std::to_string(host.port)});
  if (!host.user.empty()) words.insert(words.end(), {"-l", host.user});
  words.insert(words.end(), {"--", host.name, fmt::format("exec sh -c '{}'", script)});
  return words;
}

std::optional<AgentGreeting> parse_greeting(std::string_view line) {
  const auto words = split(line, ' ');
  if (words.size() != 5 || words[0] != "muster-agent" || words[1] != "1") return std::nullopt;
  const auto pid = parse_number<std::int32_t>(words[2]);
  const auto ticks = parse_number<std::int64_t>(words[3]);
  if (!pid || *pid <= 0 || !ticks) return std::nullopt;
  return AgentGreeting{*pid, *ticks};
}

std::optional<Leftover> parse_leftover(std::string_view line) {
  const auto words = split(line, ' ');
  if (words.size() < 5 || words[0] != "left") return std::nullopt;
  const auto pid = parse_number<std::int32_t>(words[1]);
  const auto uid = parse_number<std::int64_t>(words[2]);
  const auto error = parse_number<std::int32_t>(words[3]);
  if (!pid || !uid || !error) return std::nullopt;
  return Leftover{
      .pid = *pid, .name = std::string(words[4].data(), line.end()), .uid = *uid, .error = *error};
}

bool is_busy(int exit_code, std::string_view last_line) {
  return exit_code == kSshFailed && has_any(last_line, {"Connection closed by", "Connection reset by",
                                                        "kex_exchange_identification", "Broken pipe"});
}

std::string start_failure(const RemoteOptions& options, const Host& host, const std::string& what,
                          std::string_view last_line) {
  std::string text = fmt::format("host {}: {}", host.name, what);
  if (!last_line.empty()) text += fmt::format(": {}", one_line(std::string(last_line)));
  std::string todo = advice(host, last_line);
  if (todo.empty() && last_line.empty() && options.bootstrap == BootstrapKind::kSsh)
    todo = fmt::format("see what `ssh {} true` says", address_of(host));
  if (!todo.empty()) text += fmt::format(" ({})", todo);
  return text;
}

}  // namespace muster::launcher
