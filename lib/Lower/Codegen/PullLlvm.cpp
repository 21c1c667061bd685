//===- PullLlvm.cpp - shared code generation over LLVM IR -----------------===//
#include "PullElementwise.h"
#include "PullIndices.h"
#include "PullRows.h"
#include "PullValues.h"
#include "PullWindows.h"
#include "VectorMathImpl.h"

template class kerf::codegen::VectorMathOf<kerf::codegen::LlvmBuilder>;
template class kerf::codegen::PullEmitter<kerf::codegen::LlvmBuilder>;
