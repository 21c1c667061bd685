//===- PullGpu.cpp - shared code generation over gpu.func -----------------===//
#include "GpuEmitter.h"

#include "../Codegen/PullElementwise.h"
#include "../Codegen/PullIndices.h"
#include "../Codegen/PullRows.h"
#include "../Codegen/PullValues.h"
#include "../Codegen/PullWindows.h"
#include "../Codegen/VectorMathImpl.h"

template class kerf::codegen::VectorMathOf<kerf::cuda::GpuBuilder>;
template class kerf::codegen::PullEmitter<kerf::cuda::GpuBuilder>;
