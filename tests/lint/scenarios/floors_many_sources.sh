# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^src: 29 sources outside of folders instead of 28 at most$
for k in {1..27}; do
	echo '/* SPDX-License-Identifier: MIT */' >src/more$k.c
	sed -i "s/^\tpark\.c/&\n\tmore$k.c/" src/floors.cmake
done
