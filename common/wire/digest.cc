#include "common/wire/digest.h"

#include <charconv>
#include <fmt/format.h>
#include <xxhash.h>

#ifdef MUSTER_DIGEST_AVX2
#include "common/base/processor.h"
#include "common/wire/digest_avx2.h"
#endif

namespace muster {

namespace {

Digest128 digest_from(XXH128_hash_t hash) {
  return {.high = hash.high64, .low = hash.low64};
}

}  // namespace

struct Digest::State {
  XXH3_state_t hash;
};

Digest::Digest() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->hash);
}
Digest::~Digest() = default;
void Digest::add(std::string_view bytes) {
#ifdef MUSTER_DIGEST_AVX2
  if (has_avx2()) return add_with_avx2(&state_->hash, bytes.data(), bytes.size());
#endif
  XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
}
Digest128 Digest::value() const {
  return digest_from(XXH3_128bits_digest(&state_->hash));
}
std::string Digest::text() const {
  return text_of(value());
}

std::string xxh3_digest(std::string_view bytes) {
  return text_of(digest_of(bytes));
}

Digest128 digest_of(std::string_view bytes) {
#ifdef MUSTER_DIGEST_AVX2
  // In a virtual machine it takes some time to ask the processor for its abilities. That is longer than to
  // hash a short text.
  constexpr std::size_t kShortBytes = 4096;
  if (bytes.size() > kShortBytes && has_avx2()) {
    Digest128 digest;
    xxh3_with_avx2(bytes.data(), bytes.size(), digest.high, digest.low);
    return digest;
  }
#endif
  return digest_from(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string text_of(Digest128 digest) {
  return fmt::format("{:016x}{:016x}", digest.high, digest.low);
}

std::optional<Digest128> parse_digest(std::string_view text) {
  constexpr std::size_t kDigits = 16;
  Digest128 digest;
  if (text.size() != 2 * kDigits || text.find_first_not_of("0123456789abcdef") != text.npos)
    return std::nullopt;
  std::from_chars(text.data(), text.data() + kDigits, digest.high, 16);
  std::from_chars(text.data() + kDigits, text.data() + text.size(), digest.low, 16);
  return digest;
}

}  // namespace muster
