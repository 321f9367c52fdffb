# cpack -G DEB makes the packages muster and libmuster-dev of this build, cpack -G TGZ an archive of both that runs from any folder. Without the
# runtime there is no libmuster-dev. docs/install.md says how to use them.

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME muster)
set(CPACK_PACKAGE_VERSION ${MUSTER_VERSION})
set(MUSTER_MAINTAINER "Muster's maintainers <muster@example.org>" CACHE STRING "Name and address of who maintains the packages")
set(CPACK_PACKAGE_CONTACT "${MUSTER_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGE_FILE_NAME muster-${MUSTER_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_VERBATIM_VARIABLES ON)

# The libraries for C++ programs need this machine's glibc, or a newer one. The programs may be linked for an older one.
execute_process(COMMAND getconf GNU_LIBC_VERSION OUTPUT_VARIABLE glibc OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REPLACE "glibc " "" glibc "${glibc}")
set(oldest_glibc ${glibc})
if(MUSTER_GLIBC)
  set(oldest_glibc ${MUSTER_GLIBC})
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS OFF)  # LibTorch, Open MPI and PMIx are needed by some jobs only
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_debian.cmake)

set(CPACK_COMPONENTS_ALL programs)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME muster)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS "libc6 (>= ${oldest_glibc})")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "openssh-client, elfutils")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SUGGESTS libpmix2)
set(CPACK_DEBIAN_PROGRAMS_DESCRIPTION "launcher for distributed training jobs
The program launch starts the ranks of a distributed training on this
machine, on hosts that ssh reaches, or in containers. It watches them,
restarts them from the newest checkpoint when a rank or a node is lost,
and says which one caused a failure. Scripts for torchrun run unchanged.")

if(TARGET muster)
  list(APPEND CPACK_COMPONENTS_ALL libraries development)
  set(CPACK_COMPONENT_LIBRARIES_GROUP development)
  set(CPACK_COMPONENT_DEVELOPMENT_GROUP development)
  set(depends "muster (= ${MUSTER_VERSION}), libc6 (>= ${glibc}), zlib1g-dev, libjpeg-dev, libpng-dev")
  if(MusterImages_WebP_FOUND)
    string(APPEND depends ", libwebp-dev")
  endif()
  if(MUSTER_HAS_ZSTD)
    string(APPEND depends ", libzstd-dev")
  endif()
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libmuster-dev)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SOURCE muster)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${depends}")
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libopenmpi3, libtiff6")
  set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "C++ runtime for distributed training
Headers and libraries for training programs in C++23 that use LibTorch:
data-parallel and pipeline-parallel training, data sets and loaders, and
checkpoints. CMake finds them with find_package(Muster), and pkg-config as
muster.

Debian has no package of LibTorch ${MUSTER_TORCH_VERSION}, which a program needs:
install it with pip (torch==${MUSTER_TORCH_VERSION}).")
  # The dynamic linker's cache lists the libraries.
  file(WRITE ${CMAKE_BINARY_DIR}/package/triggers "activate-noawait ldconfig\n")
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/package/triggers)
endif()

include(CPack)
