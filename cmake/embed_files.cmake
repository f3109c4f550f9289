# Writes OUTPUT, a .cpp with the bytes of files, so that the program carries them
# (apps/server/web/assets.h).
#   cmake -DOUTPUT=FILE -DFOLDER=DIR -DNAMES="a;b" -P embed_files.cmake
set(type_html "text/html; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_svg "image/svg+xml")

set(arrays "")
set(rows "")
foreach(name ${NAMES})
  file(READ ${FOLDER}/${name} hex HEX)
  file(SHA256 ${FOLDER}/${name} hash)
  string(SUBSTRING ${hash} 0 32 etag)
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," hex "${hex}")
  string(REGEX REPLACE "(('[^']*',)('[^']*',)('[^']*',)('[^']*',)('[^']*',)('[^']*',)('[^']*',)('[^']*',))" "\\1\n" hex "${hex}")
  string(MAKE_C_IDENTIFIER ${name} id)
  get_filename_component(ending ${name} LAST_EXT)
  string(SUBSTRING ${ending} 1 -1 ending)
  if(NOT DEFINED type_${ending})
    message(FATAL_ERROR "embed_files: no content type is known for ${name}")
  endif()
  set(path /${name})
  if(name STREQUAL "index.html")
    set(path /)
  endif()
  string(APPEND arrays "constexpr char k_${id}[] = {\n${hex}};\n")
  string(APPEND rows "    {\"${path}\", \"${type_${ending}}\", {k_${id}, ${size}}, \"\\\"${etag}\\\"\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Written by cmake/embed_files.cmake.
#include \"server/web/assets.h\"

namespace ringkeep::web {
namespace {

${arrays}
constexpr Asset kAssets[] = {
${rows}};

}  // namespace

std::span<const Asset> assets() { return kAssets; }

}  // namespace ringkeep::web
")
