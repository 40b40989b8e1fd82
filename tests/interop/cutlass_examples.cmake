# The examples of CUTLASS (README.md says what each uses). They and the headers come with the
# nvidia-cutlass wheel, which scripts/setup.sh installs where nvcc is found; like DLPack, it goes
# when .venv is made anew.
if(MPFA_CUTLASS_DIR AND NOT EXISTS ${MPFA_CUTLASS_DIR}/include/cutlass/cutlass.h)
  unset(MPFA_CUTLASS_DIR CACHE)
endif()
file(GLOB cutlass_hints ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/cutlass_library/source)
find_path(MPFA_CUTLASS_DIR include/cutlass/cutlass.h HINTS ${cutlass_hints} NO_DEFAULT_PATH
  DOC "CUTLASS's folder, which holds include/ and examples/")
if(NOT MPFA_CUTLASS_DIR)
  message(STATUS "CUTLASS's examples in the simulator: left out (the wheel of "
    "scripts/requirements/cutlass.txt is not installed: run scripts/setup.sh test)")
  return()
endif()

# cutlass_example(NAME ARCH FILE ...): the rest as for mpfa_interop_program.
function(cutlass_example name arch file)
  set(source ${MPFA_CUTLASS_DIR}/examples/${file})
  get_filename_component(folder ${source} DIRECTORY)
  mpfa_interop_program(NAME cutlass_${name} ARCH ${arch} SOURCE ${source} ${ARGN}
    FLAGS --expt-relaxed-constexpr --extended-lambda -DCUTLASS_ENABLE_TENSOR_CORE_MMA=1
      -I${MPFA_CUTLASS_DIR}/include -I${MPFA_CUTLASS_DIR}/tools/util/include
      -I${MPFA_CUTLASS_DIR}/examples/common -I${folder})
endfunction()

cutlass_example(14_tf32_gemm 80
  14_ampere_tf32_tensorop_gemm/ampere_tf32_tensorop_gemm.cu
  ARGS --m=256 --n=128 --k=64)
if(NOT MPFA_INTEROP STREQUAL "ALL")
  return()
endif()
