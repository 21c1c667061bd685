//===- Capture.td - regions that use values from outside ---*- tablegen -*-===//
#ifndef KERF_CAPTURE_TD
#define KERF_CAPTURE_TD

include "mlir/IR/OpBase.td"

def Kerf_CaptureInterface : OpInterface<"CaptureInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    Values from outside that the regions of the op use can become operands, which
    its sharding rule sees (kerf-flatten).
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the op again, at `builder`, with those of `captured` as operands
        that can be such, and gives the new op, which takes over the regions; null
        if none of them can be.
      }],
      "::mlir::Operation *", "buildWithOperands",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$captured)>
  ];
}

#endif // KERF_CAPTURE_TD
