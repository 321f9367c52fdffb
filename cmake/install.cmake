# cmake --install, by components:
#   programs     launcher and agent, what they load, their man page and the shells' completions
#   libraries    the libraries that a program with the runtime loads by name
#   development  the runtime with its public headers, and what find_package(Muster) and pkg-config read

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

foreach(program IN ITEMS launch agent)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
  endif()
endforeach()

install(TARGETS muster_tls muster_warm_library LIBRARY DESTINATION ${MUSTER_LIBRARY_FOLDER} COMPONENT programs)
if(TARGET muster_pmix)
  install(TARGETS muster_pmix LIBRARY DESTINATION ${MUSTER_LIBRARY_FOLDER} COMPONENT programs)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/runtime/rank/warm/warm_runner.py DESTINATION ${MUSTER_LIBRARY_FOLDER}
  COMPONENT programs)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/muster COMPONENT programs)
# The licences of the libraries that launch and agent are linked with, from the files of Debian's packages. Boost's file has 2 MB, so only Boost's own
# licence is taken from that file.
set(notices "")
foreach(package IN ITEMS libssl-dev libboost*-dev zlib1g-dev libsqlite3-dev libyaml-cpp-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev
    libxxhash-dev libstdc++-*-dev)
  file(GLOB files /usr/share/doc/${package}/copyright)
  if(NOT files)
    message(STATUS "/usr/share/doc/${package}/copyright not found: third_party_licenses.txt will lack these licences")
    continue()
  endif()
  list(GET files 0 file)
  file(READ ${file} text)
  if(package MATCHES "boost")
    string(REGEX MATCH "\nLicense: BSL-1\\.0\n( [^\n]*\n)+" text "${text}")
  endif()
  string(APPEND notices "==== ${file}\n${text}\n")
endforeach()
file(WRITE ${CMAKE_BINARY_DIR}/package/third_party_licenses.txt "${notices}")
install(FILES ${CMAKE_BINARY_DIR}/package/third_party_licenses.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/muster COMPONENT programs)

if(TARGET launch_texts)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT programs)
endif()

# Lists our static libraries that `target` needs, in link order.
function(muster_static_libraries target result)
  set(found ${${result}})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    list(REMOVE_ITEM found ${target})
    list(APPEND found ${target})
    get_target_property(libraries ${target} LINK_LIBRARIES)
    foreach(library IN LISTS libraries)
      if(library MATCHES "^muster_" AND TARGET ${library})
        muster_static_libraries(${library} found)
      endif()
    endforeach()
  endif()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

if(TARGET muster)
  find_package(MusterTorch REQUIRED)  # MUSTER_TORCH_VERSION, for the package
  set(MUSTER_HAS_ZSTD FALSE)
  if(TARGET MusterZstd::zstd)
    set(MUSTER_HAS_ZSTD TRUE)
  endif()
  set(MUSTER_LIBRARIES "")
  muster_static_libraries(muster MUSTER_LIBRARIES)
  install(TARGETS ${MUSTER_LIBRARIES} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  foreach(library IN ITEMS muster_nccl muster_mpi muster_parquet)
    if(TARGET ${library})
      install(TARGETS ${library} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libraries)
    endif()
  endforeach()
  # An object, not a library: no code uses its symbols, so a linker would not take it from a library.
  install(FILES $<TARGET_OBJECTS:muster_warm_start> DESTINATION ${MUSTER_LIBRARY_FOLDER} RENAME warm_start.o
    COMPONENT development)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/muster DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)

  # The optional libraries that a program with the runtime links. libtiff is not one of them: it is loaded by name.
  find_package(MusterImages REQUIRED OPTIONAL_COMPONENTS WebP)
  set(MUSTER_IMAGES_COMPONENTS "")
  if(MusterImages_WebP_FOUND)
    set(MUSTER_IMAGES_COMPONENTS WebP)
  endif()

  set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/Muster)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/MusterConfig.cmake.in ${CMAKE_BINARY_DIR}/package/MusterConfig.cmake
    INSTALL_DESTINATION ${package_directory} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR MUSTER_LIBRARY_FOLDER
    NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/MusterConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/package/MusterConfig.cmake ${CMAKE_BINARY_DIR}/package/MusterConfigVersion.cmake
    ${PROJECT_SOURCE_DIR}/cmake/FindMusterTorch.cmake ${PROJECT_SOURCE_DIR}/cmake/FindMusterImages.cmake
    ${PROJECT_SOURCE_DIR}/cmake/FindMusterZstd.cmake DESTINATION ${package_directory} COMPONENT development)

  # The same for pkg-config. LibTorch has no file for pkg-config, so a user adds its flags.
  list(TRANSFORM MUSTER_LIBRARIES PREPEND -l OUTPUT_VARIABLE MUSTER_PKGCONFIG_LIBRARIES)
  list(JOIN MUSTER_PKGCONFIG_LIBRARIES " " MUSTER_PKGCONFIG_LIBRARIES)
  set(MUSTER_PKGCONFIG_REQUIRES "zlib libjpeg libpng")
  if(MusterImages_WebP_FOUND)
    string(APPEND MUSTER_PKGCONFIG_REQUIRES " libwebpdemux libwebp")
  endif()
  if(MUSTER_HAS_ZSTD)
    string(APPEND MUSTER_PKGCONFIG_REQUIRES " libzstd")
  endif()
  # The folder of libraries may have several parts, such as lib/x86_64-linux-gnu.
  file(RELATIVE_PATH MUSTER_PKGCONFIG_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" MUSTER_PKGCONFIG_PREFIX ${MUSTER_PKGCONFIG_PREFIX})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/muster.pc.in ${CMAKE_BINARY_DIR}/package/muster.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/package/muster.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endif()

# Builds all that is installed, and what the packages hold.
add_custom_target(installed)
foreach(target IN ITEMS launch agent launch_texts muster_tls muster_warm_library muster_pmix muster muster_warm_start muster_nccl muster_mpi muster_parquet)
  if(TARGET ${target})
    add_dependencies(installed ${target})
  endif()
endforeach()
