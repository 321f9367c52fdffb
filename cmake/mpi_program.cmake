# muster_mpi_program(TARGET MACRO LIBRARY SOURCE PROGRAM): before TARGET, compiles the C source to the file PROGRAM with the compiler of LIBRARY
# (openmpi or mpich). Defines MACRO for TARGET as the program's path, or as "" without that compiler or, for Open MPI, the PMIx library.
function(muster_mpi_program target macro library source program)
  string(TOUPPER ${library} upper)
  find_program(MUSTER_MPICC_${upper} NAMES mpicc.${library})
  if(NOT MUSTER_MPICC_${upper} OR (library STREQUAL openmpi AND NOT TARGET muster_pmix))
    target_compile_definitions(${target} PRIVATE ${macro}="")
    return()
  endif()
  set(includes)
  if(library STREQUAL openmpi)
    set(includes -I${MUSTER_PMIX_INCLUDE})
  endif()
  add_custom_command(OUTPUT ${program}
    COMMAND ${MUSTER_MPICC_${upper}} -O2 ${includes} -o ${program} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPENDS ${source}
    COMMENT "Compiling an MPI program with ${MUSTER_MPICC_${upper}}"
    VERBATIM)
  target_sources(${target} PRIVATE ${program})
  set_source_files_properties(${program} PROPERTIES EXTERNAL_OBJECT OFF GENERATED ON HEADER_FILE_ONLY ON)
  target_compile_definitions(${target} PRIVATE ${macro}="${program}")
endfunction()
