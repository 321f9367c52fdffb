// The ELF note that declares: this program calls muster::init() and may be a template. Linking
// Muster::warm_start adds it to a program; the agent reads it before it executes the program
// (agent/core/start/elf_note.h).
//
// This is assembly because compilers disagree on the type of a section of this name, and the program headers,
// which the agent reads, list only sections of type note.
asm(".pushsection .note.muster,\"a\",%note\n"
    ".balign 4\n"
    ".long 7, 4, 1\n"  // sizes of name and value, type
    ".asciz \"Muster\"\n"
    ".balign 4\n"
    ".long 1\n"  // the version of the protocol
    ".popsection\n");
