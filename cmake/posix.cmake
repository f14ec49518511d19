# SPDX-License-Identifier: MIT
#
# libgmprt_posix: the runtime together with replacements of libc functions (posix).  It takes
# the place of libgmprt in a program, linked before libc or preloaded.
#
# The core's calls of the replaced functions are renamed to gmp__libc_NAME, which real.c has: so the
# core never enters a replacement.
file(STRINGS posix/call/calls.def lines REGEX "^CALL(_V)?\\(")
set(GMP_POSIX_SYMS)
foreach(line ${lines})
	string(REGEX REPLACE "^CALL(_V)?\\(([A-Za-z0-9_]+).*" "\\2" name "${line}")
	string(APPEND GMP_POSIX_SYMS "${name} gmp__libc_${name}\n")
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS posix/call/calls.def)
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/posix.syms CONTENT "${GMP_POSIX_SYMS}")

set(GMP_POSIX_CORE ${CMAKE_CURRENT_BINARY_DIR}/gmprt_posix_core${CMAKE_C_OUTPUT_EXTENSION})
add_custom_command(OUTPUT ${GMP_POSIX_CORE}
	COMMAND ${CMAKE_C_COMPILER} ${GMP_TARGET} -r -nostdlib -o ${GMP_POSIX_CORE} ${GMP_OBJECTS}
	COMMAND ${CMAKE_OBJCOPY} --redefine-syms=${CMAKE_BINARY_DIR}/posix.syms ${GMP_POSIX_CORE}
	DEPENDS ${GMP_OBJECTS} posix/call/calls.def COMMAND_EXPAND_LISTS VERBATIM)

file(GLOB files CONFIGURE_DEPENDS posix/*/*.c)
add_library(gmprt_posix SHARED ${files} ${GMP_POSIX_CORE})
set_source_files_properties(${GMP_POSIX_CORE} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
# The function that pthread_once runs may leave by an exception.
set_source_files_properties(posix/sync/pthread_once.c PROPERTIES COMPILE_OPTIONS -fexceptions)
foreach(n RANGE 6)
	add_dependencies(gmprt_posix floor${n})
endforeach()
add_library(gmprt::posix ALIAS gmprt_posix)
set_target_properties(gmprt_posix PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0
	LINKER_LANGUAGE C EXPORT_NAME posix INTERPROCEDURAL_OPTIMIZATION OFF)
target_include_directories(gmprt_posix PUBLIC
	$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
	$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/gmprt>)
target_compile_definitions(gmprt_posix PRIVATE _GNU_SOURCE GMP_SAFE_ERRNO)
# Fortified, libc's headers define inline functions of the names that are replaced.  Some of these
# are deprecated.
target_compile_options(gmprt_posix PRIVATE -fno-lto ${GMP_FRAME_MOST} -U_FORTIFY_SOURCE -fno-builtin
	-Wno-deprecated-declarations
	"SHELL:-iquote ${CMAKE_CURRENT_SOURCE_DIR}/src -iquote ${CMAKE_CURRENT_SOURCE_DIR}"
	-fvisibility=hidden
	${GMP_STACK_PROBES} ${GMP_CF_PROTECTION} -O2)
target_link_libraries(gmprt_posix PRIVATE Threads::Threads ${CMAKE_DL_LIBS} ${GMP_FLOOR_LIBRARIES})
target_link_options(gmprt_posix PRIVATE
	-Wl,-z,defs,-z,nodelete,-z,relro,-z,now,-Bsymbolic-functions)
# A program that calls no replaced function itself needs it for its libraries.
target_link_options(gmprt_posix INTERFACE LINKER:--no-as-needed)
