# SPDX-License-Identifier: MIT
# gmp_example(name file...): one program of examples/, put into <build>/examples.
function(gmp_example name)
	list(TRANSFORM ARGN PREPEND examples/)
	add_executable(${name} ${ARGN})
	target_link_libraries(${name} PRIVATE gmprt_static)
	set_target_properties(${name} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
endfunction()

gmp_example(hello hello.c)
gmp_example(retry retry.c)
gmp_example(echo echo.c server.c)
gmp_example(proxy proxy.c server.c)
gmp_example(crawler crawler.c server.c buf.c)

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
		target_sources(kvserver PRIVATE tests/harness/tsan.c) # libuv has handlers of signals
	endif()
endif()

# httpd wants http-parser, which Debian has in libhttp-parser-dev.
find_path(HTTP_PARSER_INCLUDE http_parser.h)
find_library(HTTP_PARSER_LIBRARY http_parser)
if(HTTP_PARSER_INCLUDE AND HTTP_PARSER_LIBRARY)
	gmp_example(httpd httpd.c http.c server.c buf.c)
	target_include_directories(httpd PRIVATE ${HTTP_PARSER_INCLUDE})
	target_link_libraries(httpd PRIVATE ${HTTP_PARSER_LIBRARY})
else()
	message(STATUS "http-parser is missing: no examples/httpd")
endif()
mark_as_advanced(HTTP_PARSER_INCLUDE HTTP_PARSER_LIBRARY)

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
