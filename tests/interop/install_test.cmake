# Installs a build into a folder of its own, then builds and runs a project that finds it there, and
# runs the installed command from another folder.
#
#   cmake -DBUILD=... -DWORK=... -DCOMPILER=... -DCONFIG=... -DCOMMAND=bin/mpfa -P install_test.cmake
cmake_minimum_required(VERSION 3.25)
set(prefix ${WORK}/prefix)

# run(COMMAND...): a command in WORK that must succeed; its output is shown if it does not.
function(run)
  execute_process(COMMAND ${ARGV} WORKING_DIRECTORY ${WORK}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result STREQUAL "0")
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}: exit code ${result}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})

# What the library needs only to be built must not be asked for again, wherever it may be installed.
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK}/consumer
  -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${CONFIG}
  -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${WORK}/consumer/consumer)

file(GLOB_RECURSE targets ${prefix}/*mpfa-targets*.cmake)
foreach(file ${targets})
  file(READ ${file} text)
  if(text MATCHES "mpfa_warnings|mpfa_dlpack|Eigen3|nlohmann")
    message(FATAL_ERROR "${file} names ${CMAKE_MATCH_0}, which is no business of those who link mpfa::mpfa")
  endif()
endforeach()

if(COMMAND)
  # Files of the same names here must not be taken for the installed ones.
  file(WRITE ${WORK}/scripts/report.py "raise SystemExit('not the installed script')\n")
  file(WRITE ${WORK}/data/smollm2_qkv_512.safetensors "not the installed data\n")
  run(${prefix}/${COMMAND} info)
  run(${prefix}/${COMMAND} demo --no-figures --report ${WORK}/report)
  if(NOT output MATCHES "prefix/share/mpfa/smollm2_qkv_512.safetensors")
    message(FATAL_ERROR "the demo did not read its installed data:\n${output}")
  endif()
endif()
