#include "launcher/io/fleet/delivery.h"

#include <array>
#include <filesystem>
#include <string_view>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/home_directory.h"
#include "common/net/tls.h"

namespace muster::launcher {

namespace {

constexpr std::uint64_t kMostBytes = 256 << 20;
constexpr std::size_t kBlockBytes = 512;
constexpr std::size_t kDigestLetters = 64;

// Appends one file with its header in the format ustar, section 10.1.1 of POSIX.1-1988.
void append_file(std::string& tar, std::string_view name, std::string_view bytes) {
  std::array<char, kBlockBytes> header{};
  const auto put = [&header](std::size_t at, std::string_view text) {
    text.copy(header.data() + at, text.size());
  };
  put(0, name);
  put(100, "0000700");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", bytes.size()));
  put(136, "00000000000");
  put(148, "        ");  // the checksum counts its own field as blanks
  put(156, "0");
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  tar.append(header.data(), header.size());
  tar.append(bytes);
  tar.append((kBlockBytes - bytes.size() % kBlockBytes) % kBlockBytes, '\0');
}

// Returns a text about the state of the file. If the file changes in any way, the text is another one.
// Returns "" if the file does not exist.
std::string stamp_of(const std::string& file) {
  struct stat status{};
  if (stat(file.c_str(), &status) != 0) return {};
  return fmt::format("{} {} {} {}.{:09} ", status.st_dev, status.st_ino, status.st_size,
                     status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

// Returns the path of a cache file. The file has the last digest, and the stamps (stamp_of()) of the files
// whose digest it is. Errors are ignored, because the cache only saves time.
std::string memory_file() {
  const std::string home = home_directory();
  return home.empty() ? "" : home + "/.cache/muster/agent/digest";
}

std::string remembered_digest(const std::string& stamp) {
  const std::string text = read_regular_file(memory_file(), 4096).value_or("");
  const bool fits = text.size() == stamp.size() + kDigestLetters && text.starts_with(stamp);
  return fits ? text.substr(stamp.size()) : "";
}

void remember_digest(const std::string& stamp, const std::string& digest) {
  const std::filesystem::path file = memory_file();
  if (file.empty() || !make_directories(file.parent_path().string())) return;
  (void)write_file_durably(file.string(), stamp + digest);
}

}  // namespace

std::string pmix_beside(const std::string& agent) {
  return std::filesystem::path(net::Tls::file_beside(agent)).replace_filename("libmuster_pmix.so").string();
}

Expected<Delivery::Files> Delivery::read() const {
  auto agent = read_regular_file(agent_program_, kMostBytes);
  if (!agent) return std::unexpected(agent.error());
  auto module = read_regular_file(net::Tls::file_beside(agent_program_), kMostBytes);
  if (!module) return std::unexpected(module.error());
  return Files{*std::move(agent), *std::move(module)};
}

// Returns the place of a delivered agent. Its TLS module has the same relative path there as on this machine.
Expected<AgentPlace> Delivery::place() {
  if (place_) return *place_;
  const std::string stamp = stamp_of(agent_program_) + stamp_of(net::Tls::file_beside(agent_program_));
  std::string digest = remembered_digest(stamp);
  if (digest.empty()) {
    const auto tls = net::Tls::load();
    if (!tls) return std::unexpected(tls.error());
    const auto files = read();
    if (!files) return std::unexpected(files.error());
    digest = net::to_hex((*tls)->digest({files->agent, files->module}));
    remember_digest(stamp, digest);
  }
  place_ = {.path = "", .digest = std::move(digest), .module = net::Tls::file_beside(kAgentFile)};
  return *place_;
}

Expected<std::shared_ptr<const std::string>> Delivery::tar() {
  if (tar_) return tar_;
  const auto its_place = place();
  if (!its_place) return std::unexpected(its_place.error());
  const auto files = read();
  if (!files) return std::unexpected(files.error());
  std::string tar;
  tar.reserve(files->agent.size() + files->module.size() + 6 * kBlockBytes);
  append_file(tar, kAgentFile, files->agent);
  append_file(tar, its_place->module, files->module);
  // If Muster was built without PMIx, this file does not exist.
  if (const auto pmix = read_regular_file(pmix_beside(agent_program_), kMostBytes))
    append_file(tar, pmix_beside(kAgentFile), *pmix);
  tar.append(2 * kBlockBytes, '\0');
  tar_ = std::make_shared<const std::string>(std::move(tar));
  return tar_;
}

}  // namespace muster::launcher
