# Runs in cpack, when the files of all packages are in a folder each: makes Debian's packages follow Debian's rules.
if(NOT CPACK_GENERATOR STREQUAL DEB)
  return()
endif()

set(programs ${CPACK_TEMPORARY_DIRECTORY}/programs${CPACK_PACKAGING_INSTALL_PREFIX})
set(documents ${programs}/share/doc/muster)
file(REMOVE ${documents}/LICENSE)  # Debian has one copy for all packages
file(WRITE ${documents}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Muster

Files: *
Copyright: 2026 the authors of Muster
License: Apache-2.0
 On Debian systems, the text of this license is in /usr/share/common-licenses/Apache-2.0.
")
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${documents}/changelog "muster (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * CHANGELOG.md in the sources lists the changes.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
execute_process(COMMAND gzip -9n ${documents}/changelog ${programs}/share/man/man1/launch.1 COMMAND_ERROR_IS_FATAL ANY)
file(CREATE_LINK launch.1.gz ${programs}/share/man/man1/muster-agent.1.gz SYMBOLIC)
# Debian's zsh looks for its packages' completions here.
file(RENAME ${programs}/share/zsh/site-functions ${programs}/share/zsh/vendor-completions)

set(development ${CPACK_TEMPORARY_DIRECTORY}/development${CPACK_PACKAGING_INSTALL_PREFIX})
if(EXISTS ${development})
  file(MAKE_DIRECTORY ${development}/share/doc)
  file(CREATE_LINK muster ${development}/share/doc/libmuster-dev SYMBOLIC)
endif()
