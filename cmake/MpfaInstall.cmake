# `cmake --install`: library, public headers, the DLPack header they include, and a package
# configuration for find_package(mpfa). tools/ adds the command.
include(CMakePackageConfigHelpers)
set(MPFA_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/mpfa)

install(TARGETS mpfa EXPORT mpfa-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/mpfa DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${MPFA_DLPACK_INCLUDE_DIR}/dlpack/dlpack.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dlpack)

install(EXPORT mpfa-targets NAMESPACE mpfa:: DESTINATION ${MPFA_CONFIG_DIR})
get_target_property(MPFA_LIBRARY_TYPE mpfa TYPE)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/mpfa-config.cmake.in mpfa-config.cmake
  INSTALL_DESTINATION ${MPFA_CONFIG_DIR})
write_basic_package_version_file(mpfa-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mpfa-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/mpfa-config-version.cmake
  DESTINATION ${MPFA_CONFIG_DIR})
