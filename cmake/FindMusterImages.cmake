# libjpeg-turbo (or another libjpeg of version 6b's interface) and libpng, for the data sets of images: MusterImages::images. Components:
#   WebP  libwebp and libwebpdemux; defines MUSTER_WEBP for targets that link MusterImages::images
#   TIFF  the headers of libtiff 4.5 or newer; defines MUSTER_TIFF as the file name of the library, which the first TIFF loads
#
# Links statically where the system has the static libraries: then a program that reads no images contains nothing of them, while each
# shared library costs about 0.3 ms at its start. libtiff would need ten of them, so it is not linked.
include(FindPackageHandleStandardArgs)
find_package(ZLIB QUIET)

find_path(MUSTER_JPEG_INCLUDE jpeglib.h)
find_library(MUSTER_JPEG_LIBRARY NAMES libjpeg.a jpeg)
find_path(MUSTER_PNG_INCLUDE png.h)
find_library(MUSTER_PNG_LIBRARY NAMES libpng16.a libpng.a png16 png)
find_path(MUSTER_WEBP_INCLUDE webp/demux.h)
find_library(MUSTER_WEBP_LIBRARY NAMES libwebpdecoder.a libwebp.a webp)
find_library(MUSTER_WEBPDEMUX_LIBRARY NAMES libwebpdemux.a webpdemux)
find_path(MUSTER_TIFF_INCLUDE tiffio.h)
find_library(MUSTER_TIFF_LIBRARY NAMES libtiff.so)
mark_as_advanced(MUSTER_JPEG_INCLUDE MUSTER_JPEG_LIBRARY MUSTER_PNG_INCLUDE MUSTER_PNG_LIBRARY MUSTER_WEBP_INCLUDE MUSTER_WEBP_LIBRARY
  MUSTER_WEBPDEMUX_LIBRARY MUSTER_TIFF_INCLUDE MUSTER_TIFF_LIBRARY)

set(MusterImages_WebP_FOUND FALSE)
if(MUSTER_WEBP_INCLUDE AND MUSTER_WEBP_LIBRARY AND MUSTER_WEBPDEMUX_LIBRARY)
  set(MusterImages_WebP_FOUND TRUE)
endif()
# Since version 4.5 libtiff passes messages to an error handler of each file's own.
set(MusterImages_TIFF_FOUND FALSE)
if(MUSTER_TIFF_INCLUDE AND MUSTER_TIFF_LIBRARY)
  file(STRINGS ${MUSTER_TIFF_INCLUDE}/tiffio.h _muster_tiff_options REGEX "TIFFOpenOptionsSetErrorHandlerExtR")
  file(REAL_PATH ${MUSTER_TIFF_LIBRARY} _muster_tiff_file)
  if(_muster_tiff_options AND _muster_tiff_file MATCHES "/(libtiff\\.so\\.[0-9]+)[^/]*$")
    set(MusterImages_TIFF_FOUND TRUE)
    set(_muster_tiff_name ${CMAKE_MATCH_1})
  endif()
endif()

find_package_handle_standard_args(MusterImages HANDLE_COMPONENTS
  REQUIRED_VARS MUSTER_JPEG_LIBRARY MUSTER_JPEG_INCLUDE MUSTER_PNG_LIBRARY MUSTER_PNG_INCLUDE ZLIB_FOUND
  REASON_FAILURE_MESSAGE "to read images Muster needs libjpeg-turbo, libpng and, if it was built with WebP, libwebp (Debian: apt-get install libjpeg62-turbo-dev libpng-dev libwebp-dev)")

if(MusterImages_FOUND AND NOT TARGET MusterImages::images)
  add_library(MusterImages::images INTERFACE IMPORTED GLOBAL)
  target_include_directories(MusterImages::images SYSTEM INTERFACE ${MUSTER_JPEG_INCLUDE} ${MUSTER_PNG_INCLUDE})
  target_link_libraries(MusterImages::images INTERFACE ${MUSTER_JPEG_LIBRARY} ${MUSTER_PNG_LIBRARY} ZLIB::ZLIB m)
  if(MusterImages_WebP_FOUND)
    target_include_directories(MusterImages::images SYSTEM INTERFACE ${MUSTER_WEBP_INCLUDE})
    target_link_libraries(MusterImages::images INTERFACE ${MUSTER_WEBPDEMUX_LIBRARY} ${MUSTER_WEBP_LIBRARY})
    target_compile_definitions(MusterImages::images INTERFACE MUSTER_WEBP)
  endif()
  if(MusterImages_TIFF_FOUND)
    target_include_directories(MusterImages::images SYSTEM INTERFACE ${MUSTER_TIFF_INCLUDE})
    target_compile_definitions(MusterImages::images INTERFACE "MUSTER_TIFF=\"${_muster_tiff_name}\"")
  endif()
endif()
