# cmake -DBUILD=... -DSOURCE=... -DSCRATCH=... -DCXX=... -DTORCH=... -DCACHE=... -P check.cmake
# Installs the build into an empty folder, builds the project beside this file against it, and runs the result.

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix)
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE} -B ${SCRATCH}/build -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix
  -DMUSTER_TORCH_DIR=${TORCH} -DCMAKE_CXX_COMPILER_LAUNCHER=${CACHE})
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
run(${SCRATCH}/build/outside)
file(REMOVE_RECURSE ${SCRATCH})
