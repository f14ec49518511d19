# SPDX-License-Identifier: MIT
#
# What the toolchain files of aarch64 and riscv64 share: Debian's cross compiler, or clang with the
# cross compiler's libraries (-DGMP_CROSS_CLANG=ON).  It reads CMAKE_SYSTEM_PROCESSOR.
set(CMAKE_SYSTEM_NAME Linux)
set(triplet ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
if(GMP_CROSS_CLANG)
	set(CMAKE_C_COMPILER clang)
	set(CMAKE_CXX_COMPILER clang++)
	foreach(language C CXX ASM)
		set(CMAKE_${language}_COMPILER_TARGET ${triplet})
	endforeach()
	list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GMP_CROSS_CLANG)
else()
	set(CMAKE_C_COMPILER ${triplet}-gcc)
	set(CMAKE_CXX_COMPILER ${triplet}-g++)
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${CMAKE_SYSTEM_PROCESSOR} -L /usr/${triplet})
# Headers and libraries of the build machine are not those of the target.
set(CMAKE_FIND_ROOT_PATH /usr/${triplet} ${GMP_CROSS_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(GMP_TOOLS OFF CACHE BOOL "the build machine's jansson and ncurses do not fit")
