// The loaded TLS module. For tests only.
#pragma once

#include "common/base/check.h"
#include "common/net/tls.h"

namespace muster {

inline const net::Tls& loaded_tls() {
  const auto tls = net::Tls::load();
  CHECK(tls, "{}", tls.error().message());
  return **tls;
}

}  // namespace muster
