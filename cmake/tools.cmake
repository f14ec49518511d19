# SPDX-License-Identifier: MIT
# The tools, put into <build>/tools.
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
