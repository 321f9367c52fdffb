# cmake -DBUILD=... -DSOURCE=... -DSCRATCH=... -DCXX=... -DTORCH=... -DCACHE=... -DRUN_PAGES=... -DPAGES=... -DPYTHON=... -DTORCH_PYTHON=... -P check.cmake
# Installs the build into an empty folder, builds the project in this folder against it, runs the result, and runs the documents' commands that
# need an installed Muster.

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

# These variables give cmake and the launcher in the documents' commands the settings of the command above.
set(ENV{CXX} ${CXX})
set(ENV{CMAKE_GENERATOR} Ninja)
set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} "${CACHE}")
set(ENV{CMAKE_PREFIX_PATH} ${SCRATCH}/prefix)
set(ENV{MUSTER_TORCH_DIR} "${TORCH}")
if(TORCH_PYTHON)
  set(ENV{PYTHON_EXEC} ${TORCH_PYTHON})
  set(ENV{EXAMPLES} ${BUILD}/bin)
  set(ENV{PATH} ${BUILD}/bin:$ENV{PATH})
  run(${PYTHON} -B ${RUN_PAGES} --where torch --files ${SOURCE}/pages --bin ${SCRATCH}/prefix/bin --replace ~/muster=${SCRATCH}/prefix --replace "--max-steps 300=--max-steps 3"
    --replace ~/.cache/muster/torch-2.15.0/bin/python=${TORCH_PYTHON} --seconds 400 ${PAGES})
endif()

# A LibTorch other than the build's is refused: by find_package(Muster), and by a program that has loaded it.
function(refused text)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT RESULT_VARIABLE code ERROR_VARIABLE said OUTPUT_QUIET)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  if(code EQUAL 0 OR NOT said MATCHES "${text}")
    message(FATAL_ERROR "expected a refusal with '${text}', got ${code}: ${said}")
  endif()
endfunction()
set(other ${SCRATCH}/other)
file(WRITE ${other}/lib/libtorch_cpu.so "")
file(WRITE ${other}/include/torch/csrc/api/include/torch/torch.h "")
file(WRITE ${other}/include/torch/headeronly/version.h
  "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 99\n#define TORCH_VERSION_PATCH 0\n")
refused("was built with LibTorch 2\\.[0-9.]+, and LibTorch 2.99.0 was found in .*: name a LibTorch 2\\.[0-9]+ with"
  ${CMAKE_COMMAND} -G Ninja -S ${SOURCE} -B ${SCRATCH}/refused -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix
  -DMUSTER_TORCH_DIR=${other})
refused("^muster: this program was built with LibTorch 2\\.[0-9.]+, but has loaded LibTorch 2.99.0 from [^ ]*libother_torch.so: "
  ${CMAKE_COMMAND} -E env LD_PRELOAD=${BUILD}/tests/libother_torch.so ${SCRATCH}/build/outside)
file(REMOVE_RECURSE ${SCRATCH})
