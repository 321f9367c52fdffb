#ifdef MUSTER_TIFF

#include "runtime/vision/tiff_library.h"

#include <dlfcn.h>

namespace muster {

namespace {

template <class Function>
bool look_up(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

Expected<TiffLibrary> load_tiff_library() {
  void* const handle = dlopen(MUSTER_TIFF, RTLD_NOW | RTLD_LOCAL);
  TiffLibrary library{};
#define MUSTER_LOOK_UP(name) look_up(handle, #name, library.name)
  const bool found =
      handle != nullptr && MUSTER_LOOK_UP(TIFFOpenOptionsAlloc) && MUSTER_LOOK_UP(TIFFOpenOptionsFree) &&
      MUSTER_LOOK_UP(TIFFOpenOptionsSetMaxSingleMemAlloc) &&
      MUSTER_LOOK_UP(TIFFOpenOptionsSetErrorHandlerExtR) &&
      MUSTER_LOOK_UP(TIFFOpenOptionsSetWarningHandlerExtR) && MUSTER_LOOK_UP(TIFFClientOpenExt) &&
      MUSTER_LOOK_UP(TIFFClose) && MUSTER_LOOK_UP(TIFFGetField) && MUSTER_LOOK_UP(TIFFGetFieldDefaulted) &&
      MUSTER_LOOK_UP(TIFFSetField) && MUSTER_LOOK_UP(TIFFIsCODECConfigured) && MUSTER_LOOK_UP(TIFFIsTiled) &&
      MUSTER_LOOK_UP(TIFFScanlineSize64) && MUSTER_LOOK_UP(TIFFTileRowSize64) &&
      MUSTER_LOOK_UP(TIFFComputeStrip) && MUSTER_LOOK_UP(TIFFComputeTile) &&
      MUSTER_LOOK_UP(TIFFReadEncodedStrip) && MUSTER_LOOK_UP(TIFFReadEncodedTile) &&
      MUSTER_LOOK_UP(TIFFRGBAImageOK) && MUSTER_LOOK_UP(TIFFRGBAImageBegin) &&
      MUSTER_LOOK_UP(TIFFRGBAImageGet) && MUSTER_LOOK_UP(TIFFRGBAImageEnd);
#undef MUSTER_LOOK_UP
  if (!found)
    return failure(ErrorCode::kNotFound,
                   "it is a TIFF file, and libtiff cannot be loaded: {} (Debian: apt-get install libtiff6)",
                   dlerror());
  return library;
}

}  // namespace

Expected<const TiffLibrary*> tiff_library() {
  static const Expected<TiffLibrary> library = load_tiff_library();
  if (!library) return std::unexpected(library.error());
  return &*library;
}

}  // namespace muster

#endif
