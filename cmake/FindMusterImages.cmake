# libjpeg-turbo (or another libjpeg of version 6b's interface) and libpng, for the data sets of images: MusterImages::images.
#
# Linked statically where the system has the static libraries: a program that reads no images then carries nothing of them, and each
# shared library costs its start about 0.3 ms.
include(FindPackageHandleStandardArgs)
find_package(ZLIB QUIET)

find_path(MUSTER_JPEG_INCLUDE jpeglib.h)
find_library(MUSTER_JPEG_LIBRARY NAMES libjpeg.a jpeg)
find_path(MUSTER_PNG_INCLUDE png.h)
find_library(MUSTER_PNG_LIBRARY NAMES libpng16.a libpng.a png16 png)
mark_as_advanced(MUSTER_JPEG_INCLUDE MUSTER_JPEG_LIBRARY MUSTER_PNG_INCLUDE MUSTER_PNG_LIBRARY)

find_package_handle_standard_args(MusterImages
  REQUIRED_VARS MUSTER_JPEG_LIBRARY MUSTER_JPEG_INCLUDE MUSTER_PNG_LIBRARY MUSTER_PNG_INCLUDE ZLIB_FOUND
  REASON_FAILURE_MESSAGE "images are read with libjpeg-turbo and libpng (Debian: apt-get install libjpeg62-turbo-dev libpng-dev)")

if(MusterImages_FOUND AND NOT TARGET MusterImages::images)
  add_library(MusterImages::images INTERFACE IMPORTED GLOBAL)
  target_include_directories(MusterImages::images SYSTEM INTERFACE ${MUSTER_JPEG_INCLUDE} ${MUSTER_PNG_INCLUDE})
  target_link_libraries(MusterImages::images INTERFACE ${MUSTER_JPEG_LIBRARY} ${MUSTER_PNG_LIBRARY} ZLIB::ZLIB m)
endif()
