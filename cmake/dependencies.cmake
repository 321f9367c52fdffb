# The libraries that Muster takes from the system. Launcher and agent link theirs statically, or use headers only:
# each shared library costs about 0.3 ms at a job's start.

find_package(Threads REQUIRED)
find_package(Boost 1.81 CONFIG QUIET COMPONENTS headers)
if(NOT Boost_FOUND)
  find_package(Boost 1.81 REQUIRED)
endif()
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(ZLIB)
set(OPENSSL_USE_STATIC_LIBS ON)
find_package(OpenSSL 3.0 REQUIRED)

find_path(MUSTER_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
find_path(MUSTER_CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
find_path(MUSTER_XXHASH_INCLUDE xxhash.h REQUIRED)
find_path(MUSTER_YAML_INCLUDE yaml-cpp/yaml.h REQUIRED)
find_library(MUSTER_YAML_LIBRARY NAMES libyaml-cpp.a yaml-cpp REQUIRED)

# PMIx, for the agent's module for Open MPI's ranks. Debian keeps its headers apart from those of Open MPI's own copy.
find_path(MUSTER_PMIX_INCLUDE pmix_server.h HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/include)
find_library(MUSTER_PMIX_LIBRARY NAMES pmix libpmix.so.2 HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/lib)
if(NOT MUSTER_PMIX_INCLUDE OR NOT MUSTER_PMIX_LIBRARY)
  message(STATUS "PMIx (libpmix-dev) not found: launch --mpi pmix will not work")
  unset(MUSTER_PMIX_LIBRARY CACHE)
endif()

# muster_headers(NAME DIRECTORY DEFINITION...): a library that is headers only.
function(muster_headers name directory)
  add_library(${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${name} SYSTEM INTERFACE ${directory})
  target_compile_definitions(${name} INTERFACE ${ARGN})
endfunction()
muster_headers(muster_json ${MUSTER_JSON_INCLUDE})
muster_headers(muster_cli11 ${MUSTER_CLI11_INCLUDE})
muster_headers(muster_xxhash ${MUSTER_XXHASH_INCLUDE} XXH_INLINE_ALL)
muster_headers(muster_yaml ${MUSTER_YAML_INCLUDE})
target_link_libraries(muster_yaml INTERFACE ${MUSTER_YAML_LIBRARY})
muster_headers(muster_asio ${Boost_INCLUDE_DIRS} BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_COROUTINE)
target_link_libraries(muster_asio INTERFACE Threads::Threads)
