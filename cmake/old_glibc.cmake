# MUSTER_GLIBC=2.28: launch, agent and their modules run on every Linux with this glibc or a newer one, whatever glibc this machine has. They are
# linked against stubs of that version (common/glibc/stubs.py). common/glibc has the newer functions that they call.

set(MUSTER_GLIBC "" CACHE STRING "The oldest glibc for launch, agent and their modules: 2.28, or empty for this machine's")
if(NOT MUSTER_GLIBC MATCHES "^(2\\.28)?$")
  message(FATAL_ERROR "MUSTER_GLIBC=${MUSTER_GLIBC}: give 2.28, or leave it empty.")
elseif(MUSTER_GLIBC AND (MUSTER_SANITIZE OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64"))
  message(STATUS "MUSTER_GLIBC=${MUSTER_GLIBC} has no effect: it is for x86-64 without sanitizers")
  set(MUSTER_GLIBC "")
endif()

# muster_old_glibc(TARGET)
function(muster_old_glibc target)
  if(MUSTER_GLIBC)
    target_link_options(${target} PRIVATE -L${CMAKE_BINARY_DIR}/glibc)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${CMAKE_BINARY_DIR}/glibc/libmuster_glibc.a)
    add_dependencies(${target} muster_glibc)
  endif()
endfunction()

if(MUSTER_GLIBC)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(stubs ${PROJECT_SOURCE_DIR}/common/glibc/stubs.py)
  set(linker $<$<BOOL:${MUSTER_LLD}>:--ld-path=${MUSTER_LLD}>)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/glibc/libc.so
    COMMAND ${Python3_EXECUTABLE} -B ${stubs} ${MUSTER_GLIBC} ${CMAKE_BINARY_DIR}/glibc ${CMAKE_CXX_COMPILER} ${linker}
    DEPENDS ${stubs} COMMENT "Making stubs of glibc ${MUSTER_GLIBC}" VERBATIM)
  add_custom_target(muster_glibc_stubs DEPENDS ${CMAKE_BINARY_DIR}/glibc/libc.so)
  add_library(muster_glibc STATIC common/glibc/functions.cc common/glibc/start.cc)
  target_compile_options(muster_glibc PRIVATE -fno-builtin -fvisibility=hidden)
  set_target_properties(muster_glibc PROPERTIES ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/glibc)
  add_dependencies(muster_glibc muster_glibc_stubs)
endif()
