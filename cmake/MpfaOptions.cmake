# Options that a user may set, and the flags every target of the project gets. A project that takes
# this one in by add_subdirectory or FetchContent gets the library alone, and its own settings (build
# type, compiler cache, BUILD_SHARED_LIBS) stay as they are.

option(MPFA_BUILD_TOOLS "Build the mpfa command" ${PROJECT_IS_TOP_LEVEL})
option(MPFA_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(MPFA_BUILD_SIM "Build the GPU simulator" ${MPFA_BUILD_TESTS})
option(MPFA_INTEROP "With the tests: other people's CUDA programs in the simulator" ON)
option(MPFA_BUILD_EXAMPLES "Build the programs of examples/" ${MPFA_BUILD_TESTS})
option(MPFA_BUILD_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(MPFA_BUILD_FUZZ "Build the libFuzzer targets (clang only; needs the tests and the command)" OFF)
option(MPFA_BUILD_PYTHON "Build the shared library of the Python package (pip does)" OFF)
option(MPFA_INSTALL "Add what is built to the install target" ${PROJECT_IS_TOP_LEVEL})
option(MPFA_WERROR "Treat compiler warnings as errors" ${PROJECT_IS_TOP_LEVEL})
set(MPFA_SANITIZE "" CACHE STRING "Sanitizers for every target: address,undefined or thread")
set(MPFA_CUDA AUTO CACHE STRING "CUDA back end: AUTO (on when nvcc is found), ON or OFF")
set(MPFA_CUDA_ARCHITECTURES "80-virtual;90a-virtual" CACHE STRING
  "What kernels are compiled for, as CMAKE_CUDA_ARCHITECTURES: PTX by default, which the driver compiles for its GPU at the first run; native for the GPU of this machine")
set(MPFA_CUDA_RUNTIME Shared CACHE STRING
  "How the CUDA runtime is linked: Shared, which the simulator can stand in for, or Static, as in Python wheels")
set(MPFA_BIN_DIR "" CACHE PATH "Where the mpfa command is put (default: <build>/bin)")

if(PROJECT_IS_TOP_LEVEL)
  option(BUILD_SHARED_LIBS "Build libmpfa as a shared library" OFF)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(CCACHE_PROGRAM ccache)
  if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  endif()
endif()
set(CMAKE_CXX_EXTENSIONS OFF)

# Quantised bytes are defined by FP32 arithmetic without contraction (docs/spec.md, section 2), so
# a compiler may never fuse a multiply and an add behind our back.
add_library(mpfa_warnings INTERFACE)
target_compile_options(mpfa_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-ffp-contract=off>)
if(MPFA_WERROR)
  target_compile_options(mpfa_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
# GCC 12 sees overlapping copies in std::string's operator+ where there are none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(mpfa_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()

if(MPFA_SANITIZE)
  add_compile_options(-fsanitize=${MPFA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MPFA_SANITIZE})
endif()
