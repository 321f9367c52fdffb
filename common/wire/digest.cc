#include "common/wire/digest.h"

#include <fmt/core.h>
#include <xxhash.h>

namespace muster {

namespace {

std::string text_of(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
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
  XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
}
std::string Digest::text() const {
  return text_of(XXH3_128bits_digest(&state_->hash));
}

std::string xxh3_digest(std::string_view bytes) {
  return text_of(XXH3_128bits(bytes.data(), bytes.size()));
}

}  // namespace muster
