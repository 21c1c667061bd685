//===- KerfDialect.td - what phases tell each other -------*- tablegen -*-===//
#ifndef KERF_INTERFACES_DIALECT_TD
#define KERF_INTERFACES_DIALECT_TD

include "mlir/IR/OpBase.td"

def Kerf_Dialect : Dialect {
  let name = "kerf";
  let cppNamespace = "::kerf";
  let summary = "what phases tell each other about values of any dialect";
  let description = [{
    No ops, only attributes that may stand on those of other dialects:

    | attribute | on | meaning |
    |---|---|---|
    | `kerf.name` | function arguments, function results | a string: what the user calls this input or output |
    | `kerf.batch_dim` | function arguments | an i64: the dimension along which the samples of a batch lie; where no argument has one, planning takes dimension 0 |
    | `kerf.range` | function arguments | two i64 `[low, high]`: the elements must lie in `[low, high)`, which the run checks |
    | `kerf.sample_range` | function arguments | two i64 `[low, high]`: random elements are drawn from `[low, high)`; without it, from `kerf.range` |
    | `kerf.ignore_index` | function arguments | an i64 that an element may be, too, whatever `kerf.range` says |
    | `kerf.parameter` | function arguments | none: it is a parameter, which stays at the ranks from run to run (`kerf-hold-parameters`) |
    | `kerf.bounded` | function results, outputs of a program | pairs of i64 `[dim, result, ...]`: dimension `dim` has as many elements as result number `result` says, of which the size in the type is the most; what lies behind them is no part of the output |
    | `kerf.length` | function results, outputs of a program | none: an i64 that is there for `kerf.bounded` of others alone |
    | `kerf.files` | the module | strings: the files that `file` of weights counts |
    | `kerf.buffers` | the module | strings: names of weights that are buffers or constants of the model's framework, as its exporter says: not trained |
    | `kerf.parameters` | the module | strings: names of weights that are parameters there; where something is trained |
    | `kerf.shared` | the module | strings: names of weights that the model itself reads in several places, as its exporter says; where something is trained |
    | `kerf.other_names` | the module | pairs of strings: a name by which a module knows a weight that is stored under the name of another, and that name |
    | `kerf.copy_of` | weights | a string: the parameter of which import made this one for another reader |
    | `kerf.no_gradient` | ops | none: nothing is differentiated through the op |
    | `kerf.transfer_cast` | casts between floats | none: see kerf/Interfaces/TransferCast.h |
    | `kerf.without` | the module | a string, for tests: the precondition of a pattern that is not asked (kerf/Support/Preconditions.def) |

    An attribute with the prefix `kerf.` that is not listed here, or stands
    where it has no meaning, is an error.
  }];
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // KERF_INTERFACES_DIALECT_TD
