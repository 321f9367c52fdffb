# Checks the compiler, and sets the flags of all targets.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR
    "GCC ${CMAKE_CXX_COMPILER_VERSION} is too old: GCC 12 compiles co_await to code that uses freed memory. "
    "Use GCC 14 or newer, or Clang 19 or newer (Debian 12: apt-get install clang-19, then -DCMAKE_CXX_COMPILER=clang++-19).")
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR
    "Clang ${CMAKE_CXX_COMPILER_VERSION} is too old: it lacks std::expected with libstdc++ 12. "
    "Use Clang 19 or newer (Debian 12: apt-get install clang-19, then -DCMAKE_CXX_COMPILER=clang++-19), or GCC 14 or newer.")
elseif(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER_ID} is not supported: use Clang 19 or newer, or GCC 14 or newer.")
endif()

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(MUSTER_WERROR "Treat warnings as errors" OFF)
set(MUSTER_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them (for example address,undefined)")

# Sources that are compiled together read headers and instantiate templates only once, which takes a quarter of the time. The dev preset
# compiles each source alone, for work on single files.
option(MUSTER_UNITY "Compile the sources of a target in few translation units" ON)

# Only our own targets get warnings (muster_target), so that headers of a user or a library do not fail the build.
# No -Wshadow with unity builds: a name of one file may shadow a constant of another file that is compiled with it.
set(MUSTER_WARNINGS -Wall -Wextra $<$<NOT:$<BOOL:${MUSTER_UNITY}>>:-Wshadow> -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  -Wextra-semi -Wcast-qual $<$<BOOL:${MUSTER_WERROR}>:-Werror>)

if(MUSTER_SANITIZE)
  # Without vptr: that check makes a pipe to see whether memory is readable, and errs in tests that use up all descriptors.
  add_compile_options(-fsanitize=${MUSTER_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MUSTER_SANITIZE})
  # With this list Clang compiles a file in a sixth less time. The path is relative, so that checkouts can share a compiler cache.
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(MUSTER_UNCHECKED_HEADERS ${CMAKE_CURRENT_LIST_DIR}/unchecked_headers.txt)
    file(RELATIVE_PATH list ${CMAKE_BINARY_DIR} ${MUSTER_UNCHECKED_HEADERS})
    add_compile_options(-fsanitize-ignorelist=${list})
  endif()
endif()

# The linker drops functions that a program does not call, and merges equal ones. With less code there are fewer page faults: `launch` and
# its agent start a tenth faster.
if(NOT MUSTER_SANITIZE)
  add_compile_options(-ffunction-sections -fdata-sections)
  add_link_options(-Wl,--gc-sections)
endif()

option(MUSTER_FUZZ "Build the fuzzers (Clang only)" OFF)
if(MUSTER_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "MUSTER_FUZZ needs Clang's libFuzzer: -DCMAKE_CXX_COMPILER=clang++-19.")
  endif()
  # The options behind -fsanitize=fuzzer-no-link. With that flag itself, only targets that have it could use a precompiled header.
  set(MUSTER_FUZZ_OPTIONS -fsanitize-coverage=inline-8bit-counters,pc-table,indirect-calls,trace-cmp)
  foreach(name IN ITEMS bcmp memcmp memmem strcasecmp strcasestr strcmp strncasecmp strncmp strstr)
    list(APPEND MUSTER_FUZZ_OPTIONS -fno-builtin-${name})
  endforeach()
endif()

find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header carries a time stamp and its own path; both would defeat the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_EXTRAFILES=${MUSTER_UNCHECKED_HEADERS} ${MUSTER_CCACHE})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()
find_program(MUSTER_LLD NAMES ld.lld-19 ld.lld)
if(MUSTER_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_link_options(--ld-path=${MUSTER_LLD})
  if(NOT MUSTER_SANITIZE)
    add_link_options(-Wl,--icf=safe)
  endif()
endif()

# muster_target(NAME LIBS...): our warnings, includes from the root of the repository, and the libraries.
function(muster_target name)
  target_compile_options(${name} PRIVATE ${MUSTER_WARNINGS})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(${name} PUBLIC ${ARGN})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${MUSTER_UNITY} UNITY_BUILD_BATCH_SIZE 80)
endfunction()

# muster_fuzzed(NAME...): instruments these libraries, so that a fuzzer sees which code an input reaches. Without it code compiles in three
# quarters of the time.
function(muster_fuzzed)
  foreach(name IN LISTS ARGN)
    target_compile_options(${name} PRIVATE ${MUSTER_FUZZ_OPTIONS})
  endforeach()
endfunction()

# muster_precompiled(NAME OWNER): NAME, an executable or a static library, uses the precompiled header of OWNER, a static library.
function(muster_precompiled name owner)
  # A precompiled header fits only one kind of code. So executables are compiled with -fPIC too, like the library.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM ${owner})
endfunction()
