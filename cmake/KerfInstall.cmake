# What other compilers build against: find_package(Kerf) gives the libraries
# below as targets, with their headers and TableGen files (docs/Embedding.md).
set(KERF_EMBEDDED_LIBRARIES
  KerfSupport KerfCost KerfSolver KerfInterfaces KerfDist KerfNN KerfFusion KerfAutodiff KerfPlan KerfPartition
  KerfCollectives KerfBridge KerfNNToLinalg KerfRanks KerfModels KerfEmbed KerfInterpret)
install(TARGETS ${KERF_EMBEDDED_LIBRARIES} EXPORT KerfTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

set(parts Autodiff Bridge Collectives Cost Dist Embed Format Fusion Interfaces Interpret Models NN NNToLinalg Partition Plan Ranks Support)
list(JOIN parts "|" parts)
foreach(root ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/dialects
    ${PROJECT_BINARY_DIR}/include ${PROJECT_BINARY_DIR}/dialects)
  install(DIRECTORY ${root}/kerf DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING REGEX "/kerf/(${parts})/.*\\.(h|td|def|inc)$"
    PATTERN CMakeFiles EXCLUDE)
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
