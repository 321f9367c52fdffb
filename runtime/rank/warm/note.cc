// The ELF note that declares: this program calls muster::init() and may be a template. Linking
// Muster::warm_start adds it to a program; the agent reads it before it executes the program
// (agent/core/start/elf_note.h).
//
// This is assembly because compilers give a section of this name different types, and program headers list
// only notes.
asm(".pushsection .note.muster,\"a\",%note\n"
    ".balign 4\n"
    ".long 7, 4, 1\n"  // sizes of name and value, type
    ".asciz \"Muster\"\n"
    ".balign 4\n"
    ".long 1\n"  // the version of the protocol
    ".popsection\n");
