# `cmake --install`: library, public headers, the DLPack header they include, the command, and a
# package configuration for find_package(mpfa).
include(CMakePackageConfigHelpers)

install(TARGETS mpfa mpfa_dlpack mpfa_warnings EXPORT mpfa-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS mpfa_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/mpfa DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${MPFA_DLPACK_INCLUDE_DIR}/dlpack/dlpack.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dlpack)
install(EXPORT mpfa-targets NAMESPACE mpfa:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mpfa)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/mpfa-config.cmake.in mpfa-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mpfa)
write_basic_package_version_file(mpfa-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mpfa-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/mpfa-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mpfa)
