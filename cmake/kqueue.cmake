# SPDX-License-Identifier: MIT
#
# GMP_KQUEUE_EMULATION: compile the files of the FreeBSD port (GMP_OS bsd, GMP_POLLER kqueue) on
# Linux, against declarations of our own (tests/kqueue/include), and link them with an emulation of
# kqueue and of FreeBSD's system calls (tests/kqueue).
# Floors 0 and 1 only: the rest is compiled for Linux (docs/ports.md lists what FreeBSD lacks).
set(GMP_KQUEUE_INCLUDE_0 ${CMAKE_CURRENT_SOURCE_DIR}/tests/kqueue/include)
set(GMP_KQUEUE_INCLUDE_1 ${GMP_KQUEUE_INCLUDE_0})
add_library(kqueue_emulation OBJECT tests/kqueue/kqueue.c tests/kqueue/bsd.c)
target_compile_definitions(kqueue_emulation PRIVATE _GNU_SOURCE)
target_compile_options(kqueue_emulation PRIVATE -fvisibility=hidden)
set(GMP_KQUEUE_OBJECTS kqueue_emulation)
set(GMP_OBJECTS $<TARGET_OBJECTS:kqueue_emulation>)
