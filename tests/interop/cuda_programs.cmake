# Other people's CUDA programs in the simulator: a program that uses CUB and Thrust of the toolkit,
# and the examples of CUTLASS, compiled here from the nvidia-cutlass wheel's sources. README.md has a
# table of them. The quick ones belong to the build and to `make test`; `make interop` builds and runs
# all.
if(NOT MPFA_INTEROP)
  message(STATUS "CUDA programs in the simulator: left out (MPFA_INTEROP=OFF)")
  return()
endif()
if(MPFA_SANITIZE OR NOT MPFA_NVCC OR NOT TARGET simrun OR NOT TARGET mpfa_sim_cudart)
  message(STATUS "CUDA programs in the simulator: left out (no nvcc, no simulator, or one with "
    "sanitizers)")
  return()
endif()

# nvcc needs up to 5 GB for some of the examples.
set_property(GLOBAL APPEND PROPERTY JOB_POOLS mpfa_interop_nvcc=2)
add_custom_target(interop_programs)

# A program that calls the driver is linked with the toolkit's stub of its library; in the simulator
# it finds that of sim/cuda_driver.
get_filename_component(nvcc_folder ${MPFA_NVCC} DIRECTORY)
find_library(MPFA_CUDA_STUB cuda HINTS ${nvcc_folder}/../lib64/stubs ${nvcc_folder}/../lib/stubs
  DOC "The toolkit's stub of libcuda.so" NO_DEFAULT_PATH)

# mpfa_interop_program(NAME n ARCH a SOURCE file [QUICK] [DRIVER] [GPU g] [EXPECT regex] [FLAGS f ...]
# [ARGS a ...]): compiles a program to PTX of compute_<a> and adds a test that runs it for several
# seeds. It passes if run_seeds.sh finds EXPECT ("Passed") in its output. QUICK: it is built and
# tested always. DRIVER: it calls libcuda. GPU: the one to simulate, where it takes no other.
function(mpfa_interop_program)
  cmake_parse_arguments(ARG "QUICK;DRIVER" "NAME;ARCH;SOURCE;GPU;EXPECT" "FLAGS;ARGS" ${ARGN})
  if(NOT ARG_EXPECT)
    set(ARG_EXPECT "[Pp]assed")
  endif()
  if(ARG_DRIVER)
    if(NOT MPFA_CUDA_STUB)
      message(STATUS "CUDA programs in the simulator: ${ARG_NAME} is left out (no stub of libcuda)")
      return()
    endif()
    list(APPEND ARG_FLAGS ${MPFA_CUDA_STUB})
  endif()
  if(ARG_GPU)
    set(gpu --arch ${ARG_GPU})
  endif()
  set(program ${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME})
  add_custom_command(OUTPUT ${program}
    COMMAND ${MPFA_NVCC} -std=c++17 -O2 -lineinfo -w -cudart shared
      -gencode=arch=compute_${ARG_ARCH},code=compute_${ARG_ARCH}
      -o ${program} ${ARG_SOURCE} ${ARG_FLAGS}
    DEPENDS ${ARG_SOURCE}
    JOB_POOL mpfa_interop_nvcc
    COMMENT "Compiling ${ARG_NAME} with nvcc"
    VERBATIM)
  # The tests' presets leave out what has the label interop_all.
  set(all ALL)
  set(labels interop)
  if(NOT ARG_QUICK)
    set(all)
    list(APPEND labels interop_all)
  endif()
  add_custom_target(interop_${ARG_NAME} ${all} DEPENDS ${program})
  add_dependencies(interop_programs interop_${ARG_NAME})
  add_test(NAME interop_${ARG_NAME}
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/run_seeds.sh $<TARGET_FILE:simrun> ${ARG_EXPECT}
      ${gpu} ${program} ${ARG_ARGS})
  set_tests_properties(interop_${ARG_NAME} PROPERTIES TIMEOUT 3600 LABELS "${labels}")
endfunction()

mpfa_interop_program(QUICK NAME cub_algorithms ARCH 80
  SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/cub_algorithms.cu
  FLAGS --extended-lambda)

include(${CMAKE_CURRENT_LIST_DIR}/cutlass_examples.cmake)
