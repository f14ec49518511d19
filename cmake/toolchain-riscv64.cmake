# SPDX-License-Identifier: MIT
#
# Builds for riscv64 on another machine with Debian's cross compiler, or with clang and the cross
# compiler's libraries (-DGMP_CROSS_CLANG=ON); qemu-user runs what is built.
#
#   cmake --preset dev -B build/for-riscv64 --toolchain cmake/toolchain-riscv64.cmake
set(CMAKE_SYSTEM_PROCESSOR riscv64)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
