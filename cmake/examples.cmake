# SPDX-License-Identifier: MIT
# gmp_example(name file...): one program of examples/, put into <build>/examples.
function(gmp_example name)
	list(TRANSFORM ARGN PREPEND examples/)
	add_executable(${name} ${ARGN})
	target_link_libraries(${name} PRIVATE gmprt_static)
	# docs/security.md
	target_compile_options(${name} PRIVATE ${GMP_FORTIFY} -fstack-protector-strong)
	target_link_options(${name} PRIVATE -pie -Wl,-z,relro,-z,now)
	set_target_properties(${name} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
endfunction()

gmp_example(hello hello.c)
gmp_example(retry retry.c)
gmp_example(echo echo.c server.c)
gmp_example(proxy proxy.c httpproxy.c http.c server.c buf.c)
gmp_example(httpd httpd.c httpstream.c httpnotls.c http.c server.c buf.c)
gmp_example(crawler crawler.c server.c buf.c)
gmp_example(runner runner.c buf.c)

# The server of docs/porting.md before and after, and mistakes that GMP_DEBUG=check finds.
add_executable(porting_threads examples/porting/threads.c)
target_link_libraries(porting_threads PRIVATE Threads::Threads)
set_target_properties(porting_threads PROPERTIES
	RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
gmp_example(porting_green porting/green.c)
gmp_example(porting_stdio porting/stdio.c)
if(NOT GMP_SANITIZE) # the sanitizers wrap pthread_mutex_lock themselves
	gmp_example(porting_wrong porting/wrong.c)
	target_link_libraries(porting_wrong PRIVATE gmprtcheck)
endif()

# With libuv, which Debian has in libuv1-dev, kvserver has --arch=reactor.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
	pkg_check_modules(libuv QUIET IMPORTED_TARGET libuv)
endif()
set(kvreactor kvnoreactor.c)
if(libuv_FOUND)
	set(kvreactor kvreactor.c)
endif()
gmp_example(kvserver kvserver.c kvowner.c ${kvreactor} kvsession.c kvcommand.c kvtable.c resp.c
	server.c buf.c)
if(libuv_FOUND)
	target_link_libraries(kvserver PRIVATE PkgConfig::libuv)
	if(GMP_SANITIZE STREQUAL thread)
		# libuv installs signal handlers
		target_sources(kvserver PRIVATE tests/harness/tsan.c)
	endif()
endif()

# digest wants libcrypto, which Debian has in libssl-dev.
find_path(LIBCRYPTO_INCLUDE openssl/evp.h)
find_library(LIBCRYPTO_LIBRARY crypto)
if(LIBCRYPTO_INCLUDE AND LIBCRYPTO_LIBRARY)
	gmp_example(digest digest.c)
	target_include_directories(digest PRIVATE ${LIBCRYPTO_INCLUDE})
	target_link_libraries(digest PRIVATE ${LIBCRYPTO_LIBRARY})
else()
	message(STATUS "libcrypto is missing: no examples/digest")
endif()
mark_as_advanced(LIBCRYPTO_INCLUDE LIBCRYPTO_LIBRARY)

# gmp_library_example(package name file...): an example that drives the library of a pkg-config
# package.
function(gmp_library_example package name)
	string(MAKE_C_IDENTIFIER ${package} id)
	if(PkgConfig_FOUND)
		pkg_check_modules(${id} QUIET IMPORTED_TARGET ${package})
	endif()
	if(${id}_FOUND)
		gmp_example(${name} ${ARGN})
		target_link_libraries(${name} PRIVATE PkgConfig::${id})
	else()
		message(STATUS "${package} is missing: no examples/${name}")
	endif()
endfunction()

gmp_library_example(libpq pg pg.c)
gmp_library_example(openssl tls tls.c server.c)
gmp_library_example(libcurl fetch fetch.c)
gmp_library_example(hiredis redis redis.c server.c)
if(TARGET gmprt_uv_static)
	gmp_example(uvloop uvloop.c server.c)
	target_link_libraries(uvloop PRIVATE gmprt_uv_static)
else()
	message(STATUS "libgmprt_uv is missing: no examples/uvloop")
endif()
if(TARGET uvloop AND GMP_SANITIZE STREQUAL thread)
	target_sources(uvloop PRIVATE tests/harness/tsan.c) # libuv has handlers of signals
endif()

# gmp_blocking_example(package name file...): the blocking interface of the library of a pkg-config
# package, with libgmprt_posix.
function(gmp_blocking_example package name)
	string(MAKE_C_IDENTIFIER ${package} id)
	if(PkgConfig_FOUND)
		pkg_check_modules(${id} QUIET IMPORTED_TARGET ${package})
	endif()
	if(NOT ${id}_FOUND)
		message(STATUS "${package} is missing: no examples/${name}")
		return()
	endif()
	list(TRANSFORM ARGN PREPEND examples/)
	add_executable(${name} ${ARGN})
	target_link_libraries(${name} PRIVATE gmprt_posix PkgConfig::${id})
	target_compile_options(${name} PRIVATE ${GMP_FORTIFY} -fstack-protector-strong)
	target_link_options(${name} PRIVATE -pie -Wl,-z,relro,-z,now)
	set_target_properties(${name} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
endfunction()

if(GMP_POSIX)
	gmp_blocking_example(libpq blocking_pg blocking/pg.c)
	gmp_blocking_example(openssl blocking_tls blocking/tls.c)
	gmp_blocking_example(libcurl blocking_fetch blocking/fetch.c)
	gmp_blocking_example(hiredis blocking_redis blocking/redis.c)
	gmp_blocking_example(sqlite3 blocking_sqlite blocking/sqlite.c)
	gmp_blocking_example(openssl httpsd httpd.c httpstream.c httptls.c http.c server.c buf.c)
endif()
