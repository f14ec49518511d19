# SPDX-License-Identifier: MIT
# libgmprt_uv: loops of libuv in green threads (include/gmp_uv.h), if libuv can be linked with.
include(CheckCSourceCompiles)
find_package(PkgConfig QUIET)
set(GMP_UV_OLDEST 1.44) # src/uv/uv.c, "No lost wakeup"
if(PkgConfig_FOUND)
	pkg_check_modules(GMP_LIBUV QUIET IMPORTED_TARGET libuv>=${GMP_UV_OLDEST})
endif()
if(GMP_LIBUV_FOUND)
	# not the libuv of another machine or C library
	set(CMAKE_REQUIRED_LIBRARIES PkgConfig::GMP_LIBUV)
	check_c_source_compiles("
		#include <uv.h>
		int main(void) { return uv_backend_timeout(uv_default_loop()); }" GMP_UV_LINKS)
	unset(CMAKE_REQUIRED_LIBRARIES)
endif()
if(NOT GMP_UV_LINKS)
	message(STATUS "libuv ${GMP_UV_OLDEST} is missing: no libgmprt_uv")
	return()
endif()

add_library(gmprt_uv SHARED src/uv/uv.c)
add_library(gmprt_uv_static STATIC src/uv/uv.c)
add_library(gmprt::uv ALIAS gmprt_uv)
add_library(gmprt::uv_static ALIAS gmprt_uv_static)
set_target_properties(gmprt_uv PROPERTIES
	VERSION ${PROJECT_VERSION} SOVERSION 0 EXPORT_NAME uv)
set_target_properties(gmprt_uv_static PROPERTIES OUTPUT_NAME gmprt_uv EXPORT_NAME uv_static)
foreach(lib gmprt_uv gmprt_uv_static)
	# A green thread may continue on another OS thread after each wait: as the floors.
	set_target_properties(${lib} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
	target_compile_definitions(${lib} PRIVATE _GNU_SOURCE)
	target_compile_options(${lib} PRIVATE -fvisibility=hidden ${GMP_FRAME_MOST} ${GMP_FORTIFY}
		${GMP_FLOOR_OPTIONS} ${GMP_STACK_PROBES} ${GMP_CF_PROTECTION})
	if(GMP_COVERAGE)
		target_compile_options(${lib} PRIVATE --coverage -fprofile-update=atomic)
	endif()
endforeach()
target_link_libraries(gmprt_uv PUBLIC gmprt PkgConfig::GMP_LIBUV)
target_link_libraries(gmprt_uv_static PUBLIC gmprt_static PkgConfig::GMP_LIBUV)
if(NOT GMP_SANITIZE)
	target_link_options(gmprt_uv PRIVATE -Wl,-z,defs)
endif()
target_link_options(gmprt_uv PRIVATE -Wl,-z,relro,-z,now)

install(TARGETS gmprt_uv gmprt_uv_static EXPORT gmprt-uv)
install(FILES include/gmp_uv.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gmprt)
set(GMP_UV_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/gmprt-uv)
install(EXPORT gmprt-uv NAMESPACE gmprt:: FILE gmprt-uv-targets.cmake
	DESTINATION ${GMP_UV_CMAKEDIR})
configure_package_config_file(cmake/gmprt-uv-config.cmake.in
	${CMAKE_BINARY_DIR}/gmprt-uv-config.cmake INSTALL_DESTINATION ${GMP_UV_CMAKEDIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gmprt-uv-config-version.cmake
	COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/gmprt-uv-config.cmake
	${CMAKE_BINARY_DIR}/gmprt-uv-config-version.cmake DESTINATION ${GMP_UV_CMAKEDIR})
configure_file(cmake/gmprt-uv.pc.in ${CMAKE_BINARY_DIR}/gmprt-uv.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/gmprt-uv.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
