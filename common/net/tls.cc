#include "common/net/tls.h"

#include <dlfcn.h>
#include <filesystem>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/program.h"

namespace muster::net {

namespace {

std::unexpected<Error> not_loaded(const std::string& file) {
  std::string_view why = dlerror();  // begins with the file's name, if the file itself is what is wrong
  if (why.starts_with(file + ": ")) why.remove_prefix(file.size() + 2);
  return failure(ErrorCode::kInternal, "cannot load {}, which TLS needs: {}", file, why);
}

Expected<const Tls*> load_module() {
  const auto file = beside_own_program(MUSTER_TLS_MODULE);
  if (!file) return std::unexpected(file.error());
  void* const module = dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return not_loaded(*file);
  const auto entry = reinterpret_cast<decltype(&muster_tls)>(dlsym(module, "muster_tls"));
  if (entry == nullptr) return not_loaded(*file);
  return entry();
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
