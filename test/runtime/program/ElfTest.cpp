//===- ElfTest.cpp - Programs inside executables --------------------------===//
#include "runtime/program/Elf.h"
#include "test/runtime/program/SamplePrograms.h"
#include <cstring>
#include <elf.h>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

using namespace cleave::test;
using namespace cleave::runtime;

namespace {

/// Lies in this test's own executable.
__attribute__((section(".cleave.test"), used)) const char marker[] =
    "a section of the test itself";

/// A file with nothing but a section of `contents` and the names.
std::vector<uint8_t> makeElf(const std::vector<uint8_t> &contents) {
  const char names[] = "\0.shstrtab\0.cleave.program2\0.cleave.program";
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_shstrndx = 1;
  Elf64_Shdr sections[4] = {};
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_name = 1;
  sections[1].sh_offset = sizeof(header);
  sections[1].sh_size = sizeof(names);
  sections[2].sh_type = SHT_PROGBITS;
  sections[2].sh_name = 11;
  sections[2].sh_offset = sizeof(header);
  sections[3].sh_type = SHT_PROGBITS;
  sections[3].sh_name = 28;
  sections[3].sh_offset = sizeof(header) + sizeof(names);
  sections[3].sh_size = contents.size();
  header.e_shoff = sections[3].sh_offset + contents.size();
  std::vector<uint8_t> file;
  auto append = [&](const void *data, size_t size) {
    const auto *bytes = static_cast<const uint8_t *>(data);
    file.insert(file.end(), bytes, bytes + size);
  };
  append(&header, sizeof(header));
  append(names, sizeof(names));
  append(contents.data(), contents.size());
  append(sections, sizeof(sections));
  return file;
}

class TemporaryFile {
public:
  explicit TemporaryFile(const std::vector<uint8_t> &bytes)
      : path(testing::TempDir() + "cleave-elf-test-" +
             std::to_string(::getpid())) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()),
               std::streamsize(bytes.size()));
  }
  ~TemporaryFile() { ::unlink(path.c_str()); }
  std::string path;
};

TEST(Elf, FindsASectionOfARealExecutable) {
  std::vector<uint8_t> file;
  std::ifstream self("/proc/self/exe", std::ios::binary);
  file.assign(std::istreambuf_iterator<char>(self), {});
  std::span<const uint8_t> contents;
  Status status = findElfSection(file, ".cleave.test", contents);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_GE(contents.size(), sizeof(marker)); // sanitizers pad
  EXPECT_EQ(std::memcmp(contents.data(), marker, sizeof(marker)), 0);
  EXPECT_NE(findElfSection(file, ".cleave.tes", contents)
                .message()
                .find("has no section \".cleave.tes\""),
            std::string::npos);
}

TEST(Elf, LoadsProgramsOfBothKindsOfFile) {
  std::vector<uint8_t> sealed = makeSample().seal();
  for (const auto &bytes : {sealed, makeElf(sealed)}) {
    TemporaryFile file(bytes);
    Program program;
    Status status = Program::loadFile(file.path, program);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(program.getWorldSize(), 4);
  }
}

TEST(Elf, NamesWhatIsWrong) {
  auto expect = [](const std::string &path, const std::string &words) {
    Program program;
    Status status = Program::loadFile(path, program);
    EXPECT_EQ(status.message(), path + ": " + words);
  };
  expect("/nonexistent/train", "cannot open: No such file or directory");
  expect("/", "is not a regular file");
  TemporaryFile text({'h', 'e', 'l', 'l', 'o'});
  expect(text.path, "is not an ELF file");
  TemporaryFile empty({});
  expect(empty.path, "is not an ELF file");
}

TEST(Elf, NamesDamage) {
  std::vector<uint8_t> good = makeElf(makeSample().seal());
  auto expect = [&](const char *words, auto change) {
    std::vector<uint8_t> file = good;
    auto &header = *reinterpret_cast<Elf64_Ehdr *>(file.data());
    Elf64_Off offset = header.e_shoff;
    Elf64_Shdr sections[4]; // a copy: the table is not aligned
    std::memcpy(sections, file.data() + offset, sizeof(sections));
    change(header, sections);
    std::memcpy(file.data() + offset, sections, sizeof(sections));
    std::span<const uint8_t> contents;
    Status status = findElfSection(file, ".cleave.program", contents);
    EXPECT_NE(status.message().find(words), std::string::npos)
        << status.message();
  };
  expect("64-bit",
         [](Elf64_Ehdr &h, Elf64_Shdr *) { h.e_ident[EI_CLASS] = ELFCLASS32; });
  expect("little-endian",
         [](Elf64_Ehdr &h, Elf64_Shdr *) { h.e_ident[EI_DATA] = ELFDATA2MSB; });
  expect("no section table",
         [](Elf64_Ehdr &h, Elf64_Shdr *) { h.e_shoff = 0; });
  expect("table is outside the file",
         [](Elf64_Ehdr &h, Elf64_Shdr *) { h.e_shoff = ~Elf64_Off(0) - 8; });
  expect("section headers have 40 bytes",
         [](Elf64_Ehdr &h, Elf64_Shdr *) { h.e_shentsize = 40; });
  expect("table of 5 entries",
         [](Elf64_Ehdr &h, Elf64_Shdr *) { h.e_shnum = 5; });
  expect("table of 18446744073709551615 entries",
         [](Elf64_Ehdr &h, Elf64_Shdr *s) {
           h.e_shnum = 0;
           s[0].sh_size = ~Elf64_Xword(0);
         });
  expect("names has index 4 of 4",
         [](Elf64_Ehdr &h, Elf64_Shdr *) { h.e_shstrndx = 4; });
  expect("names has index 77", [](Elf64_Ehdr &h, Elf64_Shdr *s) {
    h.e_shstrndx = SHN_XINDEX;
    s[0].sh_link = 77;
  });
  expect("section names at offset",
         [](Elf64_Ehdr &, Elf64_Shdr *s) { s[1].sh_offset = ~Elf64_Off(0); });
  expect("section \".cleave.program\" at offset",
         [](Elf64_Ehdr &, Elf64_Shdr *s) { s[3].sh_size += 4096; });
  expect("no contents in the file",
         [](Elf64_Ehdr &, Elf64_Shdr *s) { s[3].sh_type = SHT_NOBITS; });
  expect("has no section",
         [](Elf64_Ehdr &, Elf64_Shdr *s) { s[3].sh_name = 1 << 30; });
}

TEST(Elf, NoFileCrashesTheReader) {
  std::mt19937 random(11);
  // Contents that are no program, so that a change of them changes nothing.
  const std::vector<uint8_t> good = makeElf({1, 2, 3, 4});
  int found = 0;
  const int rounds = 20000;
  for (int round = 0; round < rounds; ++round) {
    std::vector<uint8_t> file = good;
    for (unsigned change = 0; change <= random() % 4; ++change)
      file[random() % file.size()] =
          random() % 3 ? uint8_t(random()) : uint8_t(0xff * (random() % 2));
    if (random() % 8 == 0)
      file.resize(random() % file.size());
    std::span<const uint8_t> contents;
    if (!findElfSection(file, ".cleave.program", contents).ok())
      continue;
    ++found;
    EXPECT_LE(contents.data() + contents.size(), file.data() + file.size());
  }
  std::printf("%d mutated executables, section found in %d\n", rounds, found);
  EXPECT_GT(found, 100);
  EXPECT_LT(found, rounds - 100);
}

} // namespace
