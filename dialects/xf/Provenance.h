//===- Provenance.h - What an op is part of -------------------------------===//
#ifndef CLEAVE_DIALECTS_XF_PROVENANCE_H
#define CLEAVE_DIALECTS_XF_PROVENANCE_H

#include "dialects/xf/Xf.h"
#include <algorithm>

namespace cleave::xf {

/// The discardable attribute that holds it.
constexpr llvm::StringLiteral provenanceName = "xf.provenance";

/// Null if the op has none.
inline ProvenanceAttr getProvenance(mlir::Operation *op) {
  return op->getAttrOfType<ProvenanceAttr>(provenanceName);
}

/// Null: none.
inline void setProvenance(mlir::Operation *op, ProvenanceAttr provenance) {
  if (provenance)
    op->setAttr(provenanceName, provenance);
}

inline void copyProvenance(mlir::Operation *from, mlir::Operation *to) {
  setProvenance(to, getProvenance(from));
}

inline std::optional<Phase> getPhase(mlir::Operation *op) {
  ProvenanceAttr provenance = getProvenance(op);
  return provenance ? std::optional(provenance.getPhase()) : std::nullopt;
}

/// -1 of what is of no layer.
inline int64_t getLayer(mlir::Operation *op) {
  ProvenanceAttr provenance = getProvenance(op);
  return provenance ? provenance.getLayer() : -1;
}

/// So many layers as the provenance of the ops inside names.
inline int64_t countLayers(mlir::Operation *root) {
  int64_t layers = 0;
  root->walk([&](mlir::Operation *op) {
    layers = std::max(layers, getLayer(op) + 1);
  });
  return layers;
}

/// Makes the op one of `phase`, of the layer and module that it is of.
inline void setPhase(mlir::Operation *op, Phase phase) {
  ProvenanceAttr old = getProvenance(op);
  setProvenance(op, ProvenanceAttr::get(op->getContext(), phase,
                                        old ? old.getLayer() : -1,
                                        old ? old.getModule() : std::nullopt,
                                        old && old.getRecomputed()));
}

} // namespace cleave::xf

#endif // CLEAVE_DIALECTS_XF_PROVENANCE_H
