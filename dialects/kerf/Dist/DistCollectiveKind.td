//===- DistCollectiveKind.td - kinds of collectives --------*- tablegen -*-===//
#ifndef KERF_DIST_COLLECTIVE_KIND_TD
#define KERF_DIST_COLLECTIVE_KIND_TD

include "kerf/Dist/DistBase.td"

def Dist_CollectiveKindAttr : Dist_Attr<"CollectiveKind", "collective_kind"> {
  let summary = "a kind of collective";
  let description = [{
    `all_reduce`, `reduce_scatter`, ...: the names of the ops, which
    kerf/Format/Collectives.def lists with what is known of each.
  }];
  let parameters = (ins "::kerf::CollectiveKind":$value);
  let hasCustomAssemblyFormat = 1;
}

#endif // KERF_DIST_COLLECTIVE_KIND_TD
