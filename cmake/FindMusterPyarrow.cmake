# pyarrow's libraries, for libmuster_parquet.so: MusterPyarrow::parquet, MUSTER_PYARROW_FOLDER and MUSTER_PYARROW_MAJOR.
#
# Looks in MUSTER_PYARROW_DIR (cache or environment: the package's folder, or a virtual environment). If that is not set, looks next to
# torch, then in the environment that VIRTUAL_ENV names. A program looks in the same places when it runs.
set(MUSTER_PYARROW_DIR "" CACHE PATH "pyarrow: its package's folder, or a virtual environment; it reads Parquet and Arrow files")

set(_named "${MUSTER_PYARROW_DIR}")
if(NOT _named)
  set(_named "$ENV{MUSTER_PYARROW_DIR}")
endif()
get_filename_component(_packages "${MUSTER_TORCH_ROOT}" DIRECTORY)
set(_places "${_packages}" "$ENV{VIRTUAL_ENV}")
if(_named)
  set(_places "${_named}")
endif()
set(MUSTER_PYARROW_FOLDER "")
foreach(place IN LISTS _places)
  if(place AND NOT MUSTER_PYARROW_FOLDER)
    file(GLOB found "${place}/include/parquet/arrow/reader.h" "${place}/pyarrow/include/parquet/arrow/reader.h"
      "${place}/lib/python3*/site-packages/pyarrow/include/parquet/arrow/reader.h")
    if(found)
      list(GET found 0 header)
      string(REGEX REPLACE "/include/parquet/arrow/reader.h$" "" MUSTER_PYARROW_FOLDER "${header}")
    endif()
  endif()
endforeach()

if(_named AND NOT MUSTER_PYARROW_FOLDER)
  message(FATAL_ERROR "MUSTER_PYARROW_DIR=${_named} has no pyarrow with headers: name the package's folder, or a virtual environment")
endif()

# libparquet.so.2600 has version 26; each major version has an ABI of its own.
file(GLOB _parquet "${MUSTER_PYARROW_FOLDER}/libparquet.so.*00")
string(REGEX MATCH "\\.so\\.([0-9]+)00$" _ignored "${_parquet}")
set(MUSTER_PYARROW_MAJOR "${CMAKE_MATCH_1}")
set(_arrow "${MUSTER_PYARROW_FOLDER}/libarrow.so.${MUSTER_PYARROW_MAJOR}00")
if(MUSTER_PYARROW_FOLDER AND MUSTER_PYARROW_MAJOR AND EXISTS "${_arrow}")
  set(MusterPyarrow_FOUND TRUE)
  if(NOT TARGET MusterPyarrow::parquet)
    add_library(MusterPyarrow::parquet INTERFACE IMPORTED GLOBAL)
    target_include_directories(MusterPyarrow::parquet SYSTEM INTERFACE "${MUSTER_PYARROW_FOLDER}/include")
    target_link_libraries(MusterPyarrow::parquet INTERFACE "${_parquet}" "${_arrow}")
    message(STATUS "pyarrow ${MUSTER_PYARROW_MAJOR} in ${MUSTER_PYARROW_FOLDER}")
  endif()
else()
  set(MusterPyarrow_FOUND FALSE)
  message(STATUS "pyarrow not found: ParquetDataset will not work")
endif()
