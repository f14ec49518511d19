# SPDX-License-Identifier: MIT
# Compiles with musl-gcc for this machine, so that the programs run natively.  The kernel's headers
# and cmocka are in build/cross/musl (scripts/cross-root musl).  There is no musl-g++, and libraries
# of the system are for glibc.
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER NOTFOUND)
set(GMP_MUSL_ROOT ${CMAKE_CURRENT_LIST_DIR}/../build/cross/musl)
cmake_path(NORMAL_PATH GMP_MUSL_ROOT)
set(CMAKE_C_FLAGS_INIT "-idirafter ${GMP_MUSL_ROOT}/include")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,--eh-frame-hdr ${GMP_MUSL_ROOT}/lib/unwind.o")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,--eh-frame-hdr ${GMP_MUSL_ROOT}/lib/unwind.o")
list(APPEND CMAKE_PREFIX_PATH ${GMP_MUSL_ROOT})
set(GMP_LIBURING OFF CACHE BOOL "" FORCE)
set(GMP_LIBDW OFF CACHE BOOL "" FORCE)
set(GMP_PROTOBUFC OFF CACHE BOOL "" FORCE)
set(GMP_TOOLS OFF CACHE BOOL "jansson and ncurses of the system are for glibc")
