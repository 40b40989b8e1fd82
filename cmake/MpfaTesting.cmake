# mpfa_add_test(NAME n SOURCES a.cc ... [LIBS l ...] [STANDALONE]): one GoogleTest program, found test
# by test. STANDALONE: it does not use libmpfa.
if(MPFA_BUILD_TESTS)
  find_package(GTest 1.12 REQUIRED)
  include(GoogleTest)
endif()

function(mpfa_add_test)
  cmake_parse_arguments(ARG "STANDALONE" "NAME" "SOURCES;LIBS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_compile_features(${ARG_NAME} PRIVATE cxx_std_20)
  target_include_directories(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  if(NOT ARG_STANDALONE)
    target_link_libraries(${ARG_NAME} PRIVATE mpfa)
  endif()
  target_link_libraries(${ARG_NAME} PRIVATE mpfa_warnings GTest::gtest_main ${ARG_LIBS})
  target_compile_definitions(${ARG_NAME} PRIVATE MPFA_DATA_DIR="${PROJECT_SOURCE_DIR}/data")
  gtest_discover_tests(${ARG_NAME} DISCOVERY_TIMEOUT 120 PROPERTIES TIMEOUT 600)
endfunction()
