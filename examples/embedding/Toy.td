// A dialect of two ops that implements Kerf's interfaces.
include "mlir/Interfaces/SideEffectInterfaces.td"
include "kerf/Interfaces/Interfaces.td"

def Toy_Dialect : Dialect {
  let name = "toy";
  let cppNamespace = "::toy";
}

class Toy_Op<string mnemonic> : Op<Toy_Dialect, mnemonic, [Pure,
    DeclareOpInterfaceMethods<Kerf_ShardingRuleInterface>,
    DeclareOpInterfaceMethods<Kerf_OpCostInterface>,
    DeclareOpInterfaceMethods<Kerf_DifferentiableInterface>]> {
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` functional-type(operands, results)";
}

def Toy_ProductOp : Toy_Op<"product"> {
  let summary = "a product of two matrices, either of which may be transposed first";
  let arguments = (ins AnyStaticShapeTensor:$a, AnyStaticShapeTensor:$b, UnitAttr:$ta, UnitAttr:$tb);
}

def Toy_MultiplyOp : Toy_Op<"multiply"> {
  let summary = "a product element by element";
  let arguments = (ins AnyStaticShapeTensor:$a, AnyStaticShapeTensor:$b);
}
