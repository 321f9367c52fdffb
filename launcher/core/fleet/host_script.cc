#include "launcher/core/fleet/host_script.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"
#include "launcher/core/fleet/container_spec.h"
#include "launcher/core/text/plain_text.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

constexpr std::string_view kCache = "$HOME/.cache/muster/agent";
constexpr int kSshFailed = 255;

// Returns a script. It succeeds if the user owns the directory $d and the two files in it, and if the files
// have this digest.
std::string check_script(const AgentPlace& place) {
  return fmt::format(R"sh(test -O "$d" && test -O "$d/{0}" && test -O "$d/{1}" && )sh"
                     R"sh(test "$(cat "$d/{0}" "$d/{1}" 2>/dev/null | sha256sum)" = "{2}  -")sh",
                     kAgentFile, place.module, place.digest);
}

// Like check_script(), but the script computes no digest if the two files have passed an earlier check and
// have not been written since. The earlier check has left links to the files in $d/ok. Built-in commands of
// the shell can compare the files with these links. Another program is not started for this, because that
// would take longer than to start the agent.
std::string quick_check_script(const AgentPlace& place) {
  return fmt::format(
      R"sh({{ test -O "$d" && test -O "$d/{0}" && test -O "$d/{1}" && )sh"
      R"sh(test "$d/{0}" -ef "$d/ok/agent" && test "$d/{1}" -ef "$d/ok/module" && )sh"
      R"sh(test "$d/ok/at" -nt "$d/{0}" && test "$d/ok/at" -nt "$d/{1}"; }} || )sh"
      R"sh({{ {2} && {{ {{ mkdir -p "$d/ok" && ln -f "$d/{0}" "$d/ok/agent" && ln -f "$d/{1}" "$d/ok/module" && )sh"
      R"sh(touch "$d/ok/at"; }} 2>/dev/null; true; }}; }})sh",
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

// Returns the words that stand before the command in a host shell.
std::vector<std::string> words_of_shell(const RemoteOptions& options, const Host& host) {
  std::vector<std::string> words;
  if (options.bootstrap == BootstrapKind::kExec) {
    constexpr std::string_view kHost = "{host}";
    for (std::string word : options.exec) {
      for (std::size_t at = 0; (at = word.find(kHost, at)) != std::string::npos; at += host.name.size())
        word.replace(at, kHost.size(), host.name);
      words.push_back(std::move(word));
    }
    return words;
  }
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(options.connect_timeout).count();
  words = {"ssh", "-T", "-o", "BatchMode=yes", "-o", fmt::format("ConnectTimeout={}", seconds)};
  if (host.port != 0) words.insert(words.end(), {"-p", std::to_string(host.port)});
  if (!host.user.empty()) words.insert(words.end(), {"-l", host.user});
  words.insert(words.end(), {"--", host.name});
  return words;
}

// Returns advice for a message of ssh or of the dynamic loader.
std::string advice(const Host& host, std::string_view line) {
  const std::string address = address_of(host);
  if (has_any(line, {"Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"}))
    return fmt::format("connect once by hand, `ssh {}`, and compare the key", address);
  if (has_any(line, {"Permission denied"}))
    return fmt::format("`ssh {} true` must work without a password", address);
  if (has_any(line, {"Could not resolve hostname"})) return "check the name";
  if (has_any(line, {"Connection refused"})) {
    if (host.name == "localhost" || host.name.starts_with("127."))
      return "no sshd runs here; for workers on this machine leave out --hosts, and give --gpus-per-node";
    return "check that sshd runs there, and its port";
  }
  if (has_any(line, {"No route to host", "timed out", "Network is unreachable"}))
    return "check that the host is up and can be reached from here";
  if (line.contains("GLIBC_")) return "its C library is older than Muster needs: build Muster there";
  return "";
}

}  // namespace

std::string start_script(const AgentPlace& place, const std::vector<std::string>& arguments) {
  const std::string agent = place.path.empty() ? fmt::format("$d/{}", kAgentFile) : place.path;
  return where_agent_is(place, fmt::format("exec \"{}\"{}", agent, in_quotes(arguments)));
}

std::string where_agent_is(const AgentPlace& place, std::string_view command) {
  if (!place.path.empty()) return std::string(command);
  return fmt::format(R"sh(d="{}/{}"; {}; if test $? = 0; then {}; fi; )sh"
                     "echo muster-agent absent $(uname -m); exit {}",
                     kCache, place.digest, quick_check_script(place), command, kAgentAbsent);
}

std::string delivery_script(const AgentPlace& place) {
  return fmt::format(R"sh(umask 077; c="{0}"; mkdir -p "$c" && t=$(mktemp -d "$c/.new.XXXXXX") || exit 1; )sh"
                     R"sh(d="$t"; tar xf - -C "$t" && {2} || {{ rm -rf "$t"; exit 1; }}; )sh"
                     R"sh(mv -T "$t" "$c/{1}" 2>/dev/null && exit 0; d="$c/{1}"; )sh"
                     R"sh(if {2}; then rm -rf "$t"; exit 0; fi; )sh"
                     R"sh(mv -T "$d" "$t/old" && mv -T "$t" "$d" && rm -rf "$d/old")sh",
                     kCache, place.digest, check_script(place));
}

// Field 22 of /proc/PID/stat is the start time of the process. Field 2 is in parentheses and may contain
// anything, so the script reads the fields after the last parenthesis.
std::string kill_script(std::int32_t pid, std::int64_t start_ticks) {
  return fmt::format(
      R"sh(read -r s < /proc/{0}/stat && set -- ${{s##*) }} && shift 19 && test $1 = {1} && kill -9 {0})sh",
      pid, start_ticks);
}

std::vector<std::string> host_shell(const RemoteOptions& options, const Host& host, std::string_view script) {
  std::vector<std::string> words = words_of_shell(options, host);
  if (options.bootstrap == BootstrapKind::kExec) {
    words.insert(words.end(), {"sh", "-c", std::string(script)});
  } else {
    words.push_back(fmt::format("exec sh -c '{}'", script));
  }
  return words;
}

std::vector<std::string> agent_shell(const RemoteOptions& options, const Host& host, const AgentPlace& place,
                                     const std::vector<std::string>& arguments) {
  if (options.bootstrap != BootstrapKind::kExec || place.path.empty())
    return host_shell(options, host, start_script(place, arguments));
  std::vector<std::string> words = words_of_shell(options, host);
  words.push_back(place.path);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

// The command relies on these facts about rsync:
// - It splits the value of -e into words. Within quotes, it reads two quotes as one.
// - It appends the host's name, which the script drops, and the remote command.
// - -s keeps the host's shell from changing the words of the remote command.
std::vector<std::string> sync_command(const RemoteOptions& options, const Host& host,
                                      const std::string& directory) {
  std::string script = "shift; exec";
  for (const std::string& word : words_of_shell(options, host)) script += " " + as_shell_word(word);
  script += " \"$@\"";
  std::string quoted;
  for (const char letter : script) quoted.append(letter == '\'' ? 2 : 1, letter);
  constexpr int kSilenceSeconds = 60;
  return {"rsync",
          "-aRs",
          "--no-implied-dirs",
          fmt::format("--timeout={}", kSilenceSeconds),
          "-e",
          fmt::format("sh -c '{}' sh", quoted),
          directory + "/",
          "host:/"};
}

SyncFailure sync_failure(const Host& host, const std::string& directory, int exit_code,
                         std::string_view errors) {
  constexpr int kNoSuchProgram = 127;
  std::string last, last_of_shell;
  for (const std::string_view line : split(errors, '\n')) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    last = line;
    const bool follows =
        has_any(line, {"rsync error:", "connection unexpectedly closed", "safe_write failed"});
    if (!follows) last_of_shell = line;
  }
  const std::string& said = last_of_shell.empty() ? last : last_of_shell;
  SyncFailure failure{.text = fmt::format("{}: {} cannot be copied there", host.name, directory),
                      .is_busy = is_busy(kSshFailed, said)};
  // rsync may see that the connection is closed before it learns how the shell of the host ended. So the exit
  // code of rsync does not always show that the host lacks rsync.
  const bool lacks_rsync =
      exit_code == kNoSuchProgram || has_any(said, {"rsync: not found", "rsync: command not found",
                                                    "rsync: Command not found", "Unknown command: rsync"});
  if (lacks_rsync) {
    failure.text += ": rsync is not found there (install it, or use a directory that all hosts share)";
    return failure;
  }
  failure.text += said.empty() ? fmt::format(": rsync ended with {}", exit_code) : ": " + one_line(said);
  const std::string todo = advice(host, said);
  failure.text +=
      fmt::format(" ({}--exclude {} skips this host)", todo.empty() ? "" : todo + "; ", host.name);
  return failure;
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

std::optional<Duration> pause_before_next_try(int tries, double random) {
  constexpr int kMostTries = 6;
  constexpr Duration kFirstPause = std::chrono::milliseconds(200);
  if (tries >= kMostTries) return std::nullopt;
  const Duration longest = kFirstPause * (1 << (tries - 1)) * 3 / 2;
  return std::chrono::duration_cast<Duration>(longest * (1 + 2 * random) / 3);
}

std::string start_failure(const RemoteOptions& options, const Host& host, const std::string& what,
                          std::string_view last_line) {
  std::string text = what;
  if (!last_line.empty()) text += fmt::format(": {}", one_line(std::string(last_line)));
  std::string todo = options.in_containers() ? container_advice(last_line) : "";
  if (todo.empty()) todo = advice(host, last_line);
  if (todo.empty() && last_line.empty() && options.bootstrap == BootstrapKind::kSsh)
    todo = fmt::format("see what `ssh {} true` says", address_of(host));
  if (!todo.empty()) text += fmt::format(" ({})", todo);
  return text;
}

}  // namespace muster::launcher
