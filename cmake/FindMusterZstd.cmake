# libzstd, with which data sets read files compressed by zstd: MusterZstd::zstd. If it is not found, Muster is built without it.
#
# Links statically where the system has the static library, for the reasons in FindMusterImages.cmake.
include(FindPackageHandleStandardArgs)

find_path(MUSTER_ZSTD_INCLUDE zstd_errors.h)
find_library(MUSTER_ZSTD_LIBRARY NAMES libzstd.a zstd)
mark_as_advanced(MUSTER_ZSTD_INCLUDE MUSTER_ZSTD_LIBRARY)

find_package_handle_standard_args(MusterZstd
  REQUIRED_VARS MUSTER_ZSTD_LIBRARY MUSTER_ZSTD_INCLUDE
  REASON_FAILURE_MESSAGE "to read files compressed by zstd Muster needs libzstd (Debian: apt-get install libzstd-dev)")

if(MusterZstd_FOUND AND NOT TARGET MusterZstd::zstd)
  add_library(MusterZstd::zstd INTERFACE IMPORTED GLOBAL)
  target_include_directories(MusterZstd::zstd SYSTEM INTERFACE ${MUSTER_ZSTD_INCLUDE})
  target_link_libraries(MusterZstd::zstd INTERFACE ${MUSTER_ZSTD_LIBRARY})
endif()
