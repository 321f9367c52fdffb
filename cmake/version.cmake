# The version of everything that is built here. It comes from git: the tag vX.Y.Z is version X.Y.Z. Any other commit has the newest tag before it, the
# number of commits since, and its own name: X.Y.Z+12.g0123abcde. So a launcher refuses agents of other commits. Without a tag, all commits are counted.

set(MUSTER_VERSION_NUMBER 0.1.0)  # as long as there is no tag

# `git archive` fills in what `git describe` says, and the name of the commit.
set(described "$Format:%(describe:tags,match=v[0-9]*,abbrev=9)$")
set(commit "$Format:%h$")
if(commit MATCHES "Format")
  execute_process(COMMAND git -C ${CMAKE_CURRENT_LIST_DIR} describe --tags --always --match=v[0-9]* --abbrev=9 --dirty=.dirty
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND git -C ${CMAKE_CURRENT_LIST_DIR} rev-list --count HEAD
    OUTPUT_VARIABLE count OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(APPEND count ".")
  if(NOT described AND EXISTS ${CMAKE_CURRENT_LIST_DIR}/../.git)
    message(WARNING "git does not say which commit this is, so the version lacks its name: run `git describe --always` here")
  endif()
  # A build after the next commit configures again.
  execute_process(COMMAND git -C ${CMAKE_CURRENT_LIST_DIR} rev-parse --path-format=absolute --git-path logs/HEAD
    OUTPUT_VARIABLE commits OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(commits AND EXISTS ${commits} AND NOT CMAKE_SCRIPT_MODE_FILE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${commits})
  endif()
elseif(NOT described)
  set(described ${commit})
endif()

if(described MATCHES "^v([0-9]+\\.[0-9]+\\.[0-9]+)")
  set(MUSTER_VERSION_NUMBER ${CMAKE_MATCH_1})
endif()
set(MUSTER_VERSION ${MUSTER_VERSION_NUMBER})
if(described MATCHES "-([0-9]+)-g([0-9a-f]+(\\.dirty)?)$")
  string(APPEND MUSTER_VERSION "+${CMAKE_MATCH_1}.g${CMAKE_MATCH_2}")
elseif(described MATCHES "^[0-9a-f]+(\\.dirty)?$")
  string(APPEND MUSTER_VERSION "+${count}g${described}")
elseif(described MATCHES "\\.dirty$")
  string(APPEND MUSTER_VERSION "+dirty")
endif()
