// Loads libtiff when the first TIFF is read. If Muster were linked with libtiff, every program would load ten
// more shared libraries.
//
// The types and the name of the library come from the headers that Muster was built with. Any thread can call
// tiff_library(). The library is never unloaded. Include this header only if MUSTER_TIFF is defined.
#pragma once

#include <tiffio.h>

#include "common/base/error.h"

namespace muster {

// libtiff's functions, by their names.
struct TiffLibrary {
  decltype(&::TIFFOpenOptionsAlloc) TIFFOpenOptionsAlloc;
  decltype(&::TIFFOpenOptionsFree) TIFFOpenOptionsFree;
  decltype(&::TIFFOpenOptionsSetMaxSingleMemAlloc) TIFFOpenOptionsSetMaxSingleMemAlloc;
  decltype(&::TIFFOpenOptionsSetErrorHandlerExtR) TIFFOpenOptionsSetErrorHandlerExtR;
  decltype(&::TIFFOpenOptionsSetWarningHandlerExtR) TIFFOpenOptionsSetWarningHandlerExtR;
  decltype(&::TIFFClientOpenExt) TIFFClientOpenExt;
  decltype(&::TIFFClose) TIFFClose;
  decltype(&::TIFFGetField) TIFFGetField;
  decltype(&::TIFFGetFieldDefaulted) TIFFGetFieldDefaulted;
  decltype(&::TIFFSetField) TIFFSetField;
  decltype(&::TIFFIsCODECConfigured) TIFFIsCODECConfigured;
  decltype(&::TIFFIsTiled) TIFFIsTiled;
  decltype(&::TIFFScanlineSize64) TIFFScanlineSize64;
  decltype(&::TIFFTileRowSize64) TIFFTileRowSize64;
  decltype(&::TIFFComputeStrip) TIFFComputeStrip;
  decltype(&::TIFFComputeTile) TIFFComputeTile;
  decltype(&::TIFFReadEncodedStrip) TIFFReadEncodedStrip;
  decltype(&::TIFFReadEncodedTile) TIFFReadEncodedTile;
  decltype(&::TIFFRGBAImageOK) TIFFRGBAImageOK;
  decltype(&::TIFFRGBAImageBegin) TIFFRGBAImageBegin;
  decltype(&::TIFFRGBAImageGet) TIFFRGBAImageGet;
  decltype(&::TIFFRGBAImageEnd) TIFFRGBAImageEnd;
};

// Loads libtiff at the first call. The error says why it cannot be loaded.
Expected<const TiffLibrary*> tiff_library();

}  // namespace muster
