# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^src/base/chan\.h: its source is in another folder, src/$
echo '/* SPDX-License-Identifier: MIT */' >src/base/chan.h
sed -i 's/^\tbase\/base\.h/&\n\tbase\/chan.h/' src/floors.cmake
