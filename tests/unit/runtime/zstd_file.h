// Compresses bytes with zstd, for tests of data sets. The result is empty if Muster was built without
// libzstd.
#pragma once

#ifdef MUSTER_ZSTD
#include <cstdint>
#include <string>
#include <string_view>
#include <zstd.h>

namespace muster {

inline std::string zstd_frame(std::string_view bytes, bool has_checksum = true, bool tells_size = true) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, has_checksum ? 1 : 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, tells_size ? 1 : 0);
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  frame.resize(ZSTD_compress2(context, frame.data(), frame.size(), bytes.data(), bytes.size()));
  ZSTD_freeCCtx(context);
  return frame;
}

// A frame that readers skip.
inline std::string zstd_skippable_frame(const std::string& bytes) {
  const auto size = static_cast<std::uint32_t>(bytes.size());
  return std::string("\x53\x2a\x4d\x18") + std::string(reinterpret_cast<const char*>(&size), 4) + bytes;
}

}  // namespace muster
#endif
