//===- Capture.cpp - regions that use values from outside -----------------===//
#include "kerf/Interfaces/Capture.h"

#include "kerf/Interfaces/Capture.cpp.inc"
