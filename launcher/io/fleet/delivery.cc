#include "launcher/io/fleet/delivery.h"

#include <array>
#include <filesystem>
#include <string_view>

#include "common/base/file.h"
#include "common/net/tls.h"

namespace muster::launcher {

namespace {

constexpr std::uint64_t kMostBytes = 256 << 20;
constexpr std::size_t kBlockBytes = 512;

// One file with its header: ustar, section 10.1.1 of POSIX.1-1988.
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
  put(148, "        ");  // the checksum is made with blanks in its place
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

}  // namespace

Expected<Delivery::Files> Delivery::read() const {
  auto agent = read_regular_file(agent_program_, kMostBytes);
  if (!agent) return std::unexpected(agent.error());
  auto module = read_regular_file(net::Tls::file_beside(agent_program_), kMostBytes);
  if (!module) return std::unexpected(module.error());
  return Files{*std::move(agent), *std::move(module)};
}

// The module has the same place beside an agent that was delivered as beside this one.
Expected<AgentPlace> Delivery::place() {
  if (place_) return *place_;
  const auto tls = net::Tls::load();
  if (!tls) return std::unexpected(tls.error());
  const auto files = read();
  if (!files) return std::unexpected(files.error());
  place_ = {.path = "",
            .digest = net::to_hex((*tls)->digest({files->agent, files->module})),
            .module = std::filesystem::path(net::Tls::file_beside(kAgentFile)).lexically_normal().string()};
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
  tar.append(2 * kBlockBytes, '\0');
  tar_ = std::make_shared<const std::string>(std::move(tar));
  return tar_;
}

}  // namespace muster::launcher
