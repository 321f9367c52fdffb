// The ELF note that says: this program calls muster::init() and may be a template. Linking Muster::warm_start
// puts it into a program; the agent reads it before it executes anything (agent/core/start/elf_note.h).
//
// Written in assembly because compilers give a section of this name different types, and only a note is found
// through the program headers.
asm(".pushsection .note.muster,\"a\",%note\n"
    ".balign 4\n"
    ".long 7, 4, 1\n"  // sizes of name and value, type
    ".asciz \"Muster\"\n"
    ".balign 4\n"
    ".long 1\n"  // the version of the protocol
    ".popsection\n");
