# SPDX-License-Identifier: MIT
#
# GMP_GLIBC_FLOOR: a libgmprt.so that runs with glibc 2.28, built with a newer one.
#
# glibc 2.32 to 2.34 moved functions of libpthread.so.0 and libdl.so.2 into libc.so.6 and gave them
# a new symbol version. A reference to the old version in libc.so.6 does not work: before 2.30 the
# dynamic linker looks for a version only in the library that the reference names. So the library is
# linked with stubs of the two old libraries, which define the functions with their first version.
# No stub is ever loaded: each glibc has files of these names.
include(CheckSymbolExists)
set(CMAKE_REQUIRED_DEFINITIONS -D_GNU_SOURCE)
check_symbol_exists(__GLIBC__ features.h GMP_GLIBC)
check_symbol_exists(posix_spawn_file_actions_addclosefrom_np spawn.h GMP_GLIBC_2_34)
unset(CMAKE_REQUIRED_DEFINITIONS)
set(GMP_FLOOR_OPTIONS)
set(GMP_FLOOR_LIBRARIES)
if(GMP_GLIBC_FLOOR OR (GMP_GLIBC AND NOT GMP_GLIBC_2_34))
	set(GMP_FLOOR_OPTIONS -include ${CMAKE_CURRENT_SOURCE_DIR}/src/base/glibc_floor.h)
	set(GMP_FLOOR_LIBRARIES ${CMAKE_DL_LIBS})
endif()
if(NOT GMP_GLIBC_FLOOR)
	return()
endif()

list(APPEND GMP_FLOOR_OPTIONS -DGMP_GLIBC_FLOOR=1)
if(GMP_ARCH STREQUAL x86_64)
	set(base 2.2.5)
elseif(GMP_ARCH STREQUAL aarch64)
	set(base 2.17)
else()
	set(base 2.27)
endif()

# gmp_stub(out soname function...): a shared library that defines the functions.
function(gmp_stub out soname)
	set(dir ${CMAKE_BINARY_DIR}/glibc_floor)
	list(TRANSFORM ARGN REPLACE "(.+)" "void \\1(void) {}\n" OUTPUT_VARIABLE code)
	string(JOIN "" code ${code})
	list(JOIN ARGN "; " names)
	file(WRITE ${dir}/${soname}.c "${code}")
	file(WRITE ${dir}/${soname}.map "GLIBC_${base} { global: ${names}; local: *; };\n")
	execute_process(COMMAND ${CMAKE_C_COMPILER} -shared -fPIC -nostdlib -fno-builtin -w
		-Wl,-soname,${soname} -Wl,--version-script=${dir}/${soname}.map
		-o ${dir}/${soname} ${dir}/${soname}.c COMMAND_ERROR_IS_FATAL ANY)
	set(${out} ${dir}/${soname} PARENT_SCOPE)
endfunction()

gmp_stub(stub_pthread libpthread.so.0 pthread_attr_getstack pthread_attr_setstack
	pthread_attr_setstacksize sem_destroy sem_init sem_post sem_wait
	pthread_create pthread_detach pthread_getattr_np pthread_getspecific pthread_join
	pthread_key_create pthread_key_delete pthread_once pthread_setspecific pthread_sigmask)
gmp_stub(stub_dl libdl.so.2 dlclose dlerror dlopen dlsym)
# In one flag: cmake would add the folder of a library to the runtime path.
set(GMP_FLOOR_LIBRARIES
	"-Wl,--push-state,--no-as-needed,${stub_pthread},${stub_dl},--pop-state")
