# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^src: 27 sources outside of folders instead of 26 at most$
for k in {1..25}; do
	echo '/* SPDX-License-Identifier: MIT */' >src/more$k.c
	sed -i "s/^\tpark\.c/&\n\tmore$k.c/" src/floors.cmake
done
