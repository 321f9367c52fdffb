// This ELF note says that the program calls muster::init() and may be executed as a template. A program gets
// the note by linking Muster::warm_start. The agent reads the note before it executes the program
// (agent/core/start/elf_note.h).
//
// The note is written in assembly for two reasons. Compilers disagree on the type of a section of this name.
// And the agent reads the program headers, which list only sections of type note.
asm(".pushsection .note.muster,\"a\",%note\n"
    ".balign 4\n"
    ".long 7, 4, 1\n"  // sizes of name and value, type
    ".asciz \"Muster\"\n"
    ".balign 4\n"
    ".long 1\n"  // the version of the protocol
    ".popsection\n");
