// Serves one c10d store until stdin ends: store_server [port]. Prints the port, and the time to open it in
// microseconds.
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdio>
#include <cstdlib>

#include "agent/io/store/store_server.h"

int main(int argc, char** argv) {
  boost::asio::io_context io(1);
  const auto start = muster::Clock::now();
  const auto port = static_cast<std::uint16_t>(argc > 1 ? std::atoi(argv[1]) : 0);
  auto server = muster::agent::StoreServer::open(io, {.port = port});
  if (!server) {
    std::fprintf(stderr, "store_server: %s\n", server.error().message().c_str());
    return 1;
  }
  const std::chrono::duration<double, std::micro> opening = muster::Clock::now() - start;
  std::printf("%d %.1f\n", server->port(), opening.count());
  std::fflush(stdout);
  boost::asio::posix::stream_descriptor input(io, 0);
  input.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [&io](boost::system::error_code) { io.stop(); });
  io.run();
}
