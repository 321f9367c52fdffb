#include "agent/io/readable.h"

#include <poll.h>

namespace muster::agent {

awaitable<bool> readable(asio::posix::stream_descriptor& descriptor) {
  for (;;) {
    boost::system::error_code error;
    co_await descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                   asio::redirect_error(asio::use_awaitable, error));
    if (error || !descriptor.is_open()) co_return false;
    pollfd now{descriptor.native_handle(), POLLIN, 0};
    if (poll(&now, 1, 0) > 0) co_return true;
  }
}

}  // namespace muster::agent
