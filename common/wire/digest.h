// XXH3-128, the digest of checkpoint files: finds every accidental change, not one made on purpose.
//
// Written as 32 hexadecimal digits, as `xxhsum -H2` prints them. One Digest is for one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace muster {

// The digest of bytes that come in pieces.
class Digest {
 public:
  Digest();
  ~Digest();
  void add(std::string_view bytes);
  std::string text() const;  // of all bytes added so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string xxh3_digest(std::string_view bytes);

}  // namespace muster
