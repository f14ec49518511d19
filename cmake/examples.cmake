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
gmp_example(echo echo.c server.c)
gmp_example(proxy proxy.c server.c)
gmp_example(kvserver kvserver.c kvcommand.c kvtable.c resp.c server.c buf.c)
