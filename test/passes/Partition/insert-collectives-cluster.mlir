// Where collectives are cheap decides which ones: two nodes of four, or eight
// ranks that are all alike.
// RUN: split-file %s %t
// RUN: cleave-opt %t/sum.mlir 2>%t/remarks \
// RUN:   --cleave-insert-collectives="cluster=%t/nodes.json" \
// RUN:   | FileCheck %s --check-prefix=NODES
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t/remarks
// RUN: cleave-opt %t/sum.mlir --cleave-insert-collectives="cluster=%t/flat.json" \
// RUN:   2>/dev/null | FileCheck %s --check-prefix=FLAT
// RUN: cleave-opt %t/sum.mlir --cleave-insert-collectives 2>/dev/null \
// RUN:   | FileCheck %s --check-prefix=FLAT
// RUN: cleave-opt %t/sum.mlir --cleave-insert-collectives="cluster=h100-sxm:8" \
// RUN:   2>&1 >/dev/null | FileCheck %s --check-prefix=PRESET
// RUN: not cleave-opt %t/sum.mlir 2>&1 \
// RUN:   --cleave-insert-collectives="cluster=%t/bad.json" \
// RUN:   | FileCheck %s --check-prefix=BAD
// RUN: not cleave-opt %t/sum.mlir 2>&1 \
// RUN:   --cleave-insert-collectives="cluster=%t/none.json" \
// RUN:   | FileCheck %s --check-prefix=NONE
// RUN: not cleave-opt %t/sum.mlir 2>&1 \
// RUN:   --cleave-insert-collectives="cluster=%t/small.json" \
// RUN:   | FileCheck %s --check-prefix=SMALL

// A quarter goes between nodes.
// NODES: dist.reduce_scatter %{{.*}} axes ["tp"] dim 0
// NODES-NEXT: dist.all_reduce %{{.*}} axes ["dp"]
// NODES-NEXT: dist.all_gather %{{.*}} axes ["tp"] dim 0
// NODES-NEXT: return
// FLAT: dist.all_reduce %{{.*}} axes ["dp", "tp"]
// FLAT-NEXT: return
// REMARK: remark: [{}, {}] partial={dp, tp} -> [{}, {}] takes 3 steps, {{[0-9]+\.[0-9]}} us on {{.*}}nodes.json (shared-memory, ib-100)
// PRESET: us on h100-sxm:8 (nvlink4
// BAD: error: {{.*}}bad.json: key "levels[0].link": expects an object or one of {{.*}}shared-memory{{.*}}, got "string"
// NONE: error: {{.*}}none.json: No such file or directory
// SMALL: error: --cluster {{.*}}small.json has 4 ranks, expects 8 or more

//--- sum.mlir
dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
func.func @sum(%x: tensor<1024x1024xf32, #dist.on<@mesh, [{}, {}], partial = {dp, tp}>>)
    -> tensor<1024x1024xf32, #dist.on<@mesh, [{}, {}]>> {
  %y = dist.reshard %x : tensor<1024x1024xf32, #dist.on<@mesh, [{}, {}], partial = {dp, tp}>>
      to tensor<1024x1024xf32, #dist.on<@mesh, [{}, {}]>>
  return %y : tensor<1024x1024xf32, #dist.on<@mesh, [{}, {}]>>
}

//--- nodes.json
{"version": 1, "nodes": 2, "devices_per_node": 4,
 "levels": [{"size": 4, "link": "shared-memory"},
            {"size": 0, "link": "ib-100", "oversubscription": 10}]}

//--- flat.json
{"version": 1, "devices_per_node": 8,
 "levels": [{"size": 0, "link": "shared-memory"}]}

//--- bad.json
{"version": 1, "devices_per_node": 8, "levels": [{"size": 0, "link": "string"}]}

//--- small.json
{"version": 1, "devices_per_node": 4}
