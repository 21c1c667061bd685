# What other compilers build against: find_package(Kerf) gives the libraries
# below as targets, with their headers and TableGen files (docs/Embedding.md),
# and KerfC and KerfPlugin of tools/.
set(KERF_EMBEDDED_LIBRARIES
  KerfSupport KerfCost KerfSolver KerfInterfaces KerfDist KerfNN KerfFusion KerfAutodiff KerfPlan KerfPartition
  KerfCollectives KerfBridge KerfNNToLinalg KerfEntries KerfRanks KerfModels KerfEmbed KerfInterpret KerfNative)
install(TARGETS ${KERF_EMBEDDED_LIBRARIES} EXPORT KerfTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Their headers: a folder each, of the sources and of what TableGen has written.
foreach(part Autodiff Bridge Collectives Cost Dist Embed Entries Format Fusion Interfaces Interpret Models Native NN
    NNToLinalg Partition Plan Ranks Support)
  foreach(root include dialects)
    foreach(folder ${PROJECT_SOURCE_DIR}/${root}/kerf/${part} ${PROJECT_BINARY_DIR}/${root}/kerf/${part})
      if(EXISTS ${folder})
        install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kerf
          FILES_MATCHING REGEX "\\.(h|td|def|inc)$" PATTERN CMakeFiles EXCLUDE PATTERN "*.dir" EXCLUDE)
      endif()
    endforeach()
  endforeach()
endforeach()

configure_file(${PROJECT_SOURCE_DIR}/cmake/Version.h.in ${PROJECT_BINARY_DIR}/cmake/Version.h @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cmake/Version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kerf)

set(config ${CMAKE_INSTALL_LIBDIR}/cmake/Kerf)
install(EXPORT KerfTargets DESTINATION ${config})
include(CMakePackageConfigHelpers)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/KerfConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/KerfConfig.cmake INSTALL_DESTINATION ${config}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/KerfConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/KerfConfig.cmake ${PROJECT_BINARY_DIR}/cmake/KerfConfigVersion.cmake
  DESTINATION ${config})
