# How CMake compiles BoringSSL, which takes longer to build than any other dependency; .cargo/config.toml names this file.
#
# It does not change the library, only the time that the compiler takes: it leaves out debug information, which nothing reads,
# and compiles the C++ standard headers that most files include only once (benches/RESULTS.md, "How long people wait"). If a new
# version of BoringSSL renames one of its libraries, CMake stops here.

# BoringSSL adds -ggdb to the flags of all languages, and these come after it. A release build with debug information
# (CARGO_PROFILE_RELEASE_DEBUG) has the type RelWithDebInfo and keeps its own.
foreach(language C CXX)
  foreach(type DEBUG MINSIZEREL RELEASE)
    set(CMAKE_${language}_FLAGS_${type}_INIT "-g0")
  endforeach()
endforeach()

# CMake also reads this file when it tries the compiler, and then there are no libraries.
get_property(tries_compiler GLOBAL PROPERTY IN_TRY_COMPILE)
get_property(is_read GLOBAL PROPERTY squall_boringssl_is_read)
if(NOT tries_compiler AND NOT is_read)
  set_property(GLOBAL PROPERTY squall_boringssl_is_read TRUE)
  # $<ANGLE-R> is ">", which would end the expression around it.
  foreach(header algorithm array atomic limits memory string_view)
    list(APPEND headers "[[$<$<COMPILE_LANGUAGE:CXX>:<${header}$<ANGLE-R>>]]")
  endforeach()
  list(JOIN headers " " headers)
  # The libraries do not exist yet, so this call waits until BoringSSL's own CMakeLists.txt has been read.
  foreach(library crypto fipsmodule ssl)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL target_precompile_headers ${library} PRIVATE ${headers})")
  endforeach()
endif()
