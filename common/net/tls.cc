#include "common/net/tls.h"

#include <filesystem>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/program.h"

namespace muster::net {

namespace {

Expected<const Tls*> load_module() {
  const auto entry = function_beside_own_program(MUSTER_TLS_MODULE, "muster_tls", "TLS");
  if (!entry) return std::unexpected(entry.error());
  return reinterpret_cast<decltype(&muster_tls)>(*entry)();
}

}  // namespace

std::string Tls::file_beside(const std::string& program) {
  return std::filesystem::path(program).replace_filename(MUSTER_TLS_MODULE).lexically_normal();
}

Expected<const Tls*> Tls::load() {
  static const Expected<const Tls*> loaded = load_module();
  return loaded;
}

Key make_key() {
  Key key;
  CHECK(getentropy(key.data(), key.size()) == 0, "no random numbers");
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

}  // namespace muster::net
