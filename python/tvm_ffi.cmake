# TVM-FFI, the ABI between the Python package and its shared library: headers and library of the
# apache-tvm-ffi wheel. Sets MPFA_TVM_FFI_INCLUDE_DIR (where dlpack/dlpack.h is, too) and
# MPFA_TVM_FFI_LIBRARY. scikit-build-core names the Python; otherwise it is .venv's, or the system's.
if(NOT Python_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
endif()
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter)
foreach(query includedir libfiles)
  execute_process(COMMAND ${Python_EXECUTABLE} -m tvm_ffi.config --${query}
    OUTPUT_VARIABLE MPFA_TVM_FFI_${query} OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_VARIABLE error RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR
      "MPFA_BUILD_PYTHON: ${Python_EXECUTABLE} has no apache-tvm-ffi (scripts/setup.sh demo installs it into .venv): ${error}")
  endif()
endforeach()
set(MPFA_TVM_FFI_INCLUDE_DIR ${MPFA_TVM_FFI_includedir})
set(MPFA_TVM_FFI_LIBRARY ${MPFA_TVM_FFI_libfiles})
