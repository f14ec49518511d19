# SPDX-License-Identifier: MIT
#
# Builds for riscv64 on another machine with Debian's cross compiler, or with clang and the cross
# compiler's libraries (-DGMP_CROSS_CLANG=ON); qemu-user runs what is built.
#
#   cmake --preset dev -B build/for-riscv64 --toolchain cmake/toolchain-riscv64.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
if(GMP_CROSS_CLANG)
	set(CMAKE_C_COMPILER clang)
	set(CMAKE_CXX_COMPILER clang++)
	foreach(language C CXX ASM)
		set(CMAKE_${language}_COMPILER_TARGET riscv64-linux-gnu)
	endforeach()
	list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GMP_CROSS_CLANG)
else()
	set(CMAKE_C_COMPILER riscv64-linux-gnu-gcc)
	set(CMAKE_CXX_COMPILER riscv64-linux-gnu-g++)
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-riscv64 -L /usr/riscv64-linux-gnu)
# Headers and libraries of the build machine are not those of the target.
set(CMAKE_FIND_ROOT_PATH /usr/riscv64-linux-gnu ${GMP_CROSS_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(GMP_TOOLS OFF CACHE BOOL "the build machine's jansson and ncurses do not fit")
