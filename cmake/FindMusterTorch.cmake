# Finds LibTorch >= 2.9 and makes imported targets, without find_package(Torch), which needs nvcc and breaks on newer CUDA toolkits.
#
# Looks, in this order, in:
# - MUSTER_TORCH_DIR (cache or environment): a libtorch folder, a `torch` package folder, its site-packages, or a virtual environment;
# - the environment that ./dev makes; an installed Muster looks for the environment of the version that it was built with;
# - the torch of the python3 in PATH.
# Defines:
#   MusterTorch::torch        torch_cpu and c10, for programs on CPUs
#   MusterTorch::torch_cuda   torch_cuda and c10_cuda, if the build has them
#   MusterTorch::nccl         for files that include ProcessGroupNCCL.hpp; needs CUDA's and NCCL's headers
#   MUSTER_TORCH_ROOT, MUSTER_TORCH_VERSION, MUSTER_TORCH_PYTHON (the wheel's own interpreter, or empty)

# Only ./dev says which version it installs. An installed Muster has no ./dev; its package sets the version.
if(NOT MUSTER_TORCH_EXPECTED)
  file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../dev" MUSTER_TORCH_EXPECTED REGEX "^torch_version=")
  string(REGEX MATCH "[0-9.]+" MUSTER_TORCH_EXPECTED "${MUSTER_TORCH_EXPECTED}")
endif()

set(MUSTER_TORCH_DIR "" CACHE PATH "LibTorch: a libtorch folder, a torch package folder, or a virtual environment")

# The folder in or below `place` that holds lib/libtorch_cpu.so, or "".
function(_muster_torch_root place result)
  file(GLOB packages "${place}/lib/python3*/site-packages/torch" "${place}/lib/python3*/dist-packages/torch")
  foreach(folder IN ITEMS "${place}" "${place}/torch" "${place}/libtorch" LISTS packages)
    if(EXISTS "${folder}/lib/libtorch_cpu.so" AND EXISTS "${folder}/include/torch/csrc/api/include/torch/torch.h")
      file(REAL_PATH "${folder}" folder)
      set(${result} "${folder}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

function(_muster_find_torch result)
  foreach(named IN ITEMS "${MUSTER_TORCH_DIR}" "$ENV{MUSTER_TORCH_DIR}")
    if(named)
      _muster_torch_root("${named}" root)
      if(NOT root)
        message(FATAL_ERROR "MUSTER_TORCH_DIR=${named} has no LibTorch: neither it nor its folders torch/, libtorch/ "
          "and lib/python3*/site-packages/torch/ have lib/libtorch_cpu.so with its headers.")
      endif()
      set(${result} "${root}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(cache "$ENV{XDG_CACHE_HOME}")
  if(NOT cache)
    set(cache "$ENV{HOME}/.cache")
  endif()
  _muster_torch_root("${cache}/muster/torch-${MUSTER_TORCH_EXPECTED}" root)
  if(NOT root)
    execute_process(COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE place OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      _muster_torch_root("${place}" root)
    endif()
  endif()
  set(${result} "${root}" PARENT_SCOPE)
endfunction()

function(_muster_torch_version root result)
  foreach(header IN ITEMS headeronly/version.h csrc/api/include/torch/version.h)
    if(EXISTS "${root}/include/torch/${header}")
      file(STRINGS "${root}/include/torch/${header}" lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
      string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" version "${lines}")
      if(version MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+$")
        set(${result} "${version}" PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

_muster_find_torch(MUSTER_TORCH_ROOT)
if(NOT MUSTER_TORCH_ROOT)
  if(PROJECT_NAME STREQUAL "Muster")
    message(FATAL_ERROR "LibTorch not found. `./dev build` fetches it, -DMUSTER_TORCH_DIR=FOLDER names one, "
      "and -DMUSTER_RUNTIME=OFF builds the launcher and the agent without it.")
  endif()
  message(FATAL_ERROR "LibTorch not found. -DMUSTER_TORCH_DIR=FOLDER names one: an unpacked LibTorch, or the folder torch of a Python environment.")
endif()
_muster_torch_version("${MUSTER_TORCH_ROOT}" MUSTER_TORCH_VERSION)
if(NOT MUSTER_TORCH_VERSION OR MUSTER_TORCH_VERSION VERSION_LESS 2.9)
  message(FATAL_ERROR "LibTorch in ${MUSTER_TORCH_ROOT} is version '${MUSTER_TORCH_VERSION}'; Muster needs 2.9 or newer "
    "(./dev installs ${MUSTER_TORCH_EXPECTED}). Name another with -DMUSTER_TORCH_DIR=FOLDER.")
endif()

# The interpreter of the package's virtual environment, or of the system: the package is PREFIX/lib/python3.x/site-packages/torch.
set(MUSTER_TORCH_PYTHON "")
if(MUSTER_TORCH_ROOT MATCHES "^(.*)/lib/python3[^/]*/(site|dist)-packages/torch$")
  if(EXISTS "${CMAKE_MATCH_1}/bin/python3")
    set(MUSTER_TORCH_PYTHON "${CMAKE_MATCH_1}/bin/python3")
  endif()
endif()

# A wheel's CUDA libraries are in nvidia/*/lib next to it. Neither linker nor loader may take a CUDA toolkit's libraries instead: two NCCLs
# in one process corrupt each other. So these folders come first in a program's run path. A library
# needs none: its program has loaded LibTorch, whose libraries find the others.
get_filename_component(_packages "${MUSTER_TORCH_ROOT}" DIRECTORY)
file(GLOB _nvidia_libraries "${_packages}/nvidia/*/lib")
set(_program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
set(_run_path "$<${_program}:-Wl,-rpath,${MUSTER_TORCH_ROOT}/lib>")
foreach(folder IN LISTS _nvidia_libraries)
  list(APPEND _run_path "$<${_program}:-Wl,-rpath,${folder}>" "-Wl,-rpath-link,${folder}")
endforeach()

set(_first_time TRUE)
if(TARGET MusterTorch::torch)
  set(_first_time FALSE)
else()
  find_package(Threads REQUIRED)
  add_library(MusterTorch::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(MusterTorch::torch SYSTEM INTERFACE "${MUSTER_TORCH_ROOT}/include"
    "${MUSTER_TORCH_ROOT}/include/torch/csrc/api/include")
  target_compile_definitions(MusterTorch::torch INTERFACE USE_DISTRIBUTED USE_RPC USE_TENSORPIPE USE_C10D_GLOO
    _GLIBCXX_USE_CXX11_ABI=1)
  target_link_options(MusterTorch::torch INTERFACE ${_run_path})
  target_link_libraries(MusterTorch::torch INTERFACE "${MUSTER_TORCH_ROOT}/lib/libtorch_cpu.so" "${MUSTER_TORCH_ROOT}/lib/libc10.so"
    Threads::Threads)
endif()

if(EXISTS "${MUSTER_TORCH_ROOT}/lib/libtorch_cuda.so" AND NOT TARGET MusterTorch::torch_cuda)
  add_library(MusterTorch::torch_cuda INTERFACE IMPORTED GLOBAL)
  # --no-as-needed: no code uses a symbol of libtorch_cuda, whose kernels register themselves when it is loaded.
  target_link_libraries(MusterTorch::torch_cuda INTERFACE "-Wl,--no-as-needed" "${MUSTER_TORCH_ROOT}/lib/libtorch_cuda.so"
    "${MUSTER_TORCH_ROOT}/lib/libc10_cuda.so" "-Wl,--as-needed" MusterTorch::torch)
  file(GLOB _nvidia_headers "${_packages}/nvidia/*/include")
  find_path(MUSTER_CUDA_INCLUDE cuda_runtime_api.h HINTS ${_nvidia_headers} /usr/local/cuda/include)
  find_path(MUSTER_NCCL_INCLUDE nccl.h HINTS ${_nvidia_headers} /usr/local/cuda/include)
  if(MUSTER_CUDA_INCLUDE AND MUSTER_NCCL_INCLUDE)
    add_library(MusterTorch::nccl INTERFACE IMPORTED GLOBAL)
    target_include_directories(MusterTorch::nccl SYSTEM INTERFACE ${_nvidia_headers} "${MUSTER_NCCL_INCLUDE}" "${MUSTER_CUDA_INCLUDE}")
    target_compile_definitions(MusterTorch::nccl INTERFACE USE_C10D_NCCL)
    target_link_libraries(MusterTorch::nccl INTERFACE MusterTorch::torch_cuda)
  endif()
endif()

set(MusterTorch_FOUND TRUE)
if(_first_time)
  if(TARGET MusterTorch::nccl)
    set(_parts "Gloo and NCCL")
  elseif(TARGET MusterTorch::torch_cuda)
    set(_parts "Gloo; no NCCL, since NCCL's or CUDA's headers were not found")
  else()
    set(_parts "Gloo; a CPU build")
  endif()
  message(STATUS "LibTorch ${MUSTER_TORCH_VERSION} in ${MUSTER_TORCH_ROOT} (${_parts})")
endif()
