# Other people's CUDA programs in the simulator: a program that uses CUB and Thrust of the toolkit,
# and the examples of CUTLASS, compiled here from the nvidia-cutlass wheel's sources. README.md has a
# table of them. MPFA_INTEROP=QUICK takes the few that build in seconds, ALL takes every one (`make
# interop`), OFF none.
set(MPFA_INTEROP QUICK CACHE STRING "CUDA programs to run in the simulator: QUICK, ALL or OFF")
set_property(CACHE MPFA_INTEROP PROPERTY STRINGS QUICK ALL OFF)

if(MPFA_INTEROP STREQUAL "OFF")
  message(STATUS "CUDA programs in the simulator: left out (MPFA_INTEROP=OFF)")
  return()
endif()
if(NOT MPFA_NVCC OR NOT TARGET simrun OR NOT TARGET mpfa_sim_cudart)
  message(STATUS "CUDA programs in the simulator: left out (nvcc or the simulator not found)")
  return()
endif()

# nvcc needs up to 3 GB for some of the examples.
set_property(GLOBAL APPEND PROPERTY JOB_POOLS mpfa_interop_nvcc=2)
add_custom_target(interop_programs)

# mpfa_interop_program(NAME n ARCH a SOURCE file [FLAGS f ...] [EXPECT regex] [ARGS a ...]): compiles
# a program to PTX and runs it for several seeds. It passes if it exits with 0, and its output has a
# match of EXPECT and none of what reports a failure.
function(mpfa_interop_program)
  cmake_parse_arguments(ARG "" "NAME;ARCH;SOURCE;EXPECT" "FLAGS;ARGS" ${ARGN})
  if(NOT ARG_EXPECT)
    set(ARG_EXPECT "Passed")
  endif()
  set(program ${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME})
  # --as-needed: the driver's library only where a program calls it.
  add_custom_command(OUTPUT ${program}
    COMMAND ${MPFA_NVCC} -std=c++17 -O2 -lineinfo -w -cudart shared
      -gencode=arch=compute_${ARG_ARCH},code=compute_${ARG_ARCH} ${ARG_FLAGS}
      -o ${program} ${ARG_SOURCE} ${MPFA_LIBCUDA_STUB}
    DEPENDS ${ARG_SOURCE}
    JOB_POOL mpfa_interop_nvcc
    COMMENT "Compiling ${ARG_NAME} with nvcc"
    VERBATIM)
  add_custom_target(interop_${ARG_NAME} ALL DEPENDS ${program})
  add_dependencies(interop_programs interop_${ARG_NAME})
  add_test(NAME interop_${ARG_NAME}
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/run_seeds.sh $<TARGET_FILE:simrun> ${ARG_EXPECT}
      ${program} ${ARG_ARGS})
  set_tests_properties(interop_${ARG_NAME} PROPERTIES TIMEOUT 600 LABELS cuda_programs)
endfunction()
