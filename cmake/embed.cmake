# Called by cleave_embed: writes TO, which defines the cleave::Catalog NAME with
# the text of each of FILES, which are paths below FROM.
set(entries "")
foreach(file ${FILES})
  file(READ ${FROM}/${file} text)
  cmake_path(GET file PARENT_PATH folder)
  cmake_path(GET file STEM LAST_ONLY name)
  string(APPEND entries
         "    {\"${folder}\", \"${name}\", R\"data(${text})data\"},\n")
endforeach()
file(WRITE ${TO} "#include \"cleave/Catalog/Catalog.h\"

static const cleave::CatalogFile files[] = {
${entries}};
namespace cleave {
extern const Catalog ${NAME};
const Catalog ${NAME} = files;
} // namespace cleave
")
