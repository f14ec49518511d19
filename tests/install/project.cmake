# SPDX-License-Identifier: MIT
# The CMakeLists.txt of a project outside this one.
cmake_minimum_required(VERSION 3.16)
project(scratch C)
find_package(gmprt 0.1 REQUIRED)
add_executable(shared scratch.c)
target_link_libraries(shared gmprt::gmprt)
add_executable(static scratch.c)
target_link_libraries(static gmprt::static)
