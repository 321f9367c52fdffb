// Computes XXH3-128, the digest of checkpoint files. It detects accidental changes, but not deliberate ones.
//
// A digest is written as 32 hexadecimal digits, as `xxhsum -H2` prints it. Use a Digest on one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// A digest as a number, which takes less memory than its text.
struct Digest128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Digest128&) const = default;
};

// Computes the digest of bytes that are added in pieces.
class Digest {
 public:
  Digest();
  ~Digest();
  void add(std::string_view bytes);
  Digest128 value() const;  // of all bytes added so far
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string xxh3_digest(std::string_view bytes);
Digest128 digest_of(std::string_view bytes);
std::string text_of(Digest128 digest);
// Parses the text of a digest. Returns nothing if it is not 32 hexadecimal digits in lower case.
std::optional<Digest128> parse_digest(std::string_view text);

}  // namespace muster
