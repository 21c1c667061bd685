//===- DistCollectiveKind.td - kinds of collectives --------*- tablegen -*-===//
#ifndef KERF_DIST_COLLECTIVE_KIND_TD
#define KERF_DIST_COLLECTIVE_KIND_TD

include "kerf/Dist/DistBase.td"

// The names are those of the ops.
def Dist_CollectiveKind : I32EnumAttr<"CollectiveKind", "a kind of collective", [
    I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
    I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,
    I32EnumAttrCase<"AllGather", 2, "all_gather">,
    I32EnumAttrCase<"AllToAll", 3, "all_to_all">,
    I32EnumAttrCase<"Broadcast", 4, "broadcast">,
    I32EnumAttrCase<"Permute", 5, "permute">]> {
  let cppNamespace = "::kerf::dist";
  let genSpecializedAttr = 0;
}
def Dist_CollectiveKindAttr : EnumAttr<Dist_Dialect, Dist_CollectiveKind, "collective_kind"> {
  let assemblyFormat = "$value";
}

#endif // KERF_DIST_COLLECTIVE_KIND_TD
