# SPDX-License-Identifier: MIT
# The library, the headers in a folder of their own (GNU MP has a gmp.h too), and the files by which
# pkg-config and CMake find them.  All paths are relative to the prefix: a tree can be moved.
include(CMakePackageConfigHelpers)

install(TARGETS gmprt gmprt_static gmprtcheck EXPORT gmprt)
if(GMP_POSIX)
	install(TARGETS gmprt_posix EXPORT gmprt)
endif()
install(FILES include/gmp.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gmprt)
install(DIRECTORY include/gmp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gmprt
	FILES_MATCHING PATTERN *.h)
install(FILES debuggers/gmp-gdb.py debuggers/gmp_lldb.py DESTINATION ${CMAKE_INSTALL_DATADIR}/gmprt)

set(GMP_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/gmprt)
install(EXPORT gmprt NAMESPACE gmprt:: FILE gmprt-targets.cmake DESTINATION ${GMP_CMAKEDIR})
configure_package_config_file(cmake/gmprt-config.cmake.in ${CMAKE_BINARY_DIR}/gmprt-config.cmake
	INSTALL_DESTINATION ${GMP_CMAKEDIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gmprt-config-version.cmake
	COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/gmprt-config.cmake ${CMAKE_BINARY_DIR}/gmprt-config-version.cmake
	DESTINATION ${GMP_CMAKEDIR})

file(RELATIVE_PATH GMP_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH GMP_PC_LIBDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH GMP_PC_INCLUDEDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
list(JOIN GMP_PC_CFLAGS " " GMP_PC_CFLAGS)
configure_file(cmake/gmprt.pc.in ${CMAKE_BINARY_DIR}/gmprt.pc @ONLY)
configure_file(cmake/gmprtcheck.pc.in ${CMAKE_BINARY_DIR}/gmprtcheck.pc @ONLY)
configure_file(cmake/gmprt-posix.pc.in ${CMAKE_BINARY_DIR}/gmprt-posix.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/gmprt.pc ${CMAKE_BINARY_DIR}/gmprtcheck.pc
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(GMP_POSIX)
	install(FILES ${CMAKE_BINARY_DIR}/gmprt-posix.pc
		DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
