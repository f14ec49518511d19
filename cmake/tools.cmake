# SPDX-License-Identifier: MIT
# The programs of tools/, put into <build>/tools. They do not use the library.

# gmp-top wants jansson and ncurses with wide characters, which Debian has in libjansson-dev and
# libncurses-dev.
find_package(PkgConfig QUIET)
set(GMP_TOP_MISSING)
foreach(package jansson ncursesw)
	if(PkgConfig_FOUND)
		pkg_check_modules(${package} QUIET IMPORTED_TARGET ${package})
	endif()
	if(NOT ${package}_FOUND)
		list(APPEND GMP_TOP_MISSING ${package})
	endif()
endforeach()

if(GMP_TOP_MISSING)
	list(JOIN GMP_TOP_MISSING " and " GMP_TOP_MISSING)
	message(STATUS "${GMP_TOP_MISSING} is missing: no gmp-top")
else()
	add_executable(gmp-top tools/top/main.c tools/top/http.c tools/top/sample.c
		tools/top/screen.c tools/top/text.c tools/top/view.c)
	target_compile_definitions(gmp-top PRIVATE
		_GNU_SOURCE GMP_TOP_VERSION="${PROJECT_VERSION}")
	target_link_libraries(gmp-top PRIVATE PkgConfig::jansson PkgConfig::ncursesw)
	# docs/security.md
	target_compile_options(gmp-top PRIVATE ${GMP_FORTIFY} -fstack-protector-strong)
	target_link_options(gmp-top PRIVATE -pie -Wl,-z,relro,-z,now)
	set_target_properties(gmp-top PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
	install(TARGETS gmp-top DESTINATION ${CMAKE_INSTALL_BINDIR})
	install(FILES tools/top/gmp-top.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# gmp-trace needs libc only.
set(GMP_TRACE_SOURCES reader.c decode.c clock.c util.c model.c model_names.c json.c escape.c text.c
	summary.c summary_text.c summary_json.c flame.c)
list(TRANSFORM GMP_TRACE_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/tools/trace/)
add_executable(gmp-trace tools/trace/main.c ${GMP_TRACE_SOURCES})
target_include_directories(gmp-trace PRIVATE include)
target_compile_definitions(gmp-trace PRIVATE _GNU_SOURCE)
target_compile_options(gmp-trace PRIVATE ${GMP_INTERNAL} ${GMP_FORTIFY})
target_link_options(gmp-trace PRIVATE -pie -Wl,-z,relro,-z,now)
set_target_properties(gmp-trace PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
install(TARGETS gmp-trace)
install(FILES tools/trace/gmp-trace.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# gmp-run preloads libgmprt_posix, which it finds relative to itself.
if(GMP_POSIX)
	file(RELATIVE_PATH GMP_RUN_LIBDIR ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
	add_executable(gmp-run tools/run/main.c)
	target_include_directories(gmp-run PRIVATE ${PROJECT_SOURCE_DIR})
	target_compile_definitions(gmp-run PRIVATE _GNU_SOURCE
		GMP_RUN_VERSION="${PROJECT_VERSION}"
		GMP_RUN_LIBRARY="${GMP_RUN_LIBDIR}/libgmprt_posix.so.0")
	target_compile_options(gmp-run PRIVATE ${GMP_FORTIFY} -fstack-protector-strong)
	target_link_options(gmp-run PRIVATE -pie -Wl,-z,relro,-z,now)
	add_dependencies(gmp-run gmprt_posix)
	set_target_properties(gmp-run PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
	install(TARGETS gmp-run)
endif()
