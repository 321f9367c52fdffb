// A client of a c10d store. It sends and receives exactly what the wheel's C++ client does, call by call, and
// does nothing else, so that it measures the time of the server and the kernel. One blocking socket, one
// thread. Anything unexpected ends the benchmark.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/file.h"

namespace muster::bench {

class StoreClient {
 public:
  explicit StoreClient(std::uint16_t port);  // connects to loopback, validates and pings

  void set(std::string_view key, std::string_view value);
  std::string get(std::string_view key);  // waits for the key first, as the wheel's client does
  std::int64_t add(std::string_view key, std::int64_t delta);
  void wait(std::string_view key);

 private:
  void begin(unsigned char command);
  void put(std::string_view bytes);
  void send();
  void receive(void* bytes, std::size_t size);

  UniqueFd socket_;
  std::string request_;
};

}  // namespace muster::bench
