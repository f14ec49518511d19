# SPDX-License-Identifier: MIT
# Read by ctest, before it runs anything: every case that a test program lists is a test.
# The function gmp_discover(label labels slots program timeout environment emulator...) is called by
# the generated file that includes this one; the label is the first part of the program's name, the
# slots are those of tests/CMakeLists.txt, the emulator runs programs of another machine.
function(gmp_discover label labels slots program timeout environment)
	get_filename_component(name ${program} NAME)
	string(REPLACE "_" "." suite ${label})
	string(LENGTH "${label}_" length) # REGEX REPLACE "^..." would take it off twice
	string(SUBSTRING ${name} ${length} -1 name)
	set(cases)
	if(EXISTS ${program})
		execute_process(COMMAND ${ARGN} ${program} --list
			OUTPUT_VARIABLE cases OUTPUT_STRIP_TRAILING_WHITESPACE
			RESULT_VARIABLE status)
	else()
		set(status "not built")
	endif()
	string(REPLACE "\n" ";" cases "${cases}")
	if(status OR NOT cases)
		set(cases none) # a program that cannot list its cases is a test that fails
	endif()
	foreach(case IN LISTS cases)
		set(test ${suite}.${name}.${case})
		add_test(${test} ${ARGN} ${program} ${case})
		set_tests_properties(${test} PROPERTIES
			LABELS "${labels}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77
			PROCESSORS ${slots} ENVIRONMENT "${environment}")
	endforeach()
endfunction()
