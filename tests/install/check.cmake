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
run(${SCRATCH}/prefix/bin/launch --gpus-per-node 2 --device cpu --log-dir ${SCRATCH}/logs ${SCRATCH}/build/outside --under-launch)
run(${SCRATCH}/prefix/bin/launch --nodes 2 --control tcp --log-dir ${SCRATCH}/logs_tcp ${CMAKE_COMMAND} -E true)
file(GLOB agent_log ${SCRATCH}/logs/*/agent.node0.log)
file(STRINGS "${agent_log}" ready REGEX "2 of 2 workers were forked")
if(NOT ready)
  message(FATAL_ERROR "the ranks were not started warm: ${agent_log}")
endif()
file(REMOVE_RECURSE ${SCRATCH})
