# cmake -DFILE=F -DNAME=N -DOUTPUT=O -P embed.cmake: writes a C++ source whose array N has the file's bytes.
file(READ ${FILE} digits HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${digits}")
file(WRITE ${OUTPUT} "#include <cstddef>\nextern const unsigned char ${NAME}[];\nextern const std::size_t ${NAME}_size;\nconst unsigned char ${NAME}[] = {${bytes}};\nconst std::size_t ${NAME}_size = sizeof ${NAME};\n")
