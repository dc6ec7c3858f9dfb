"""Brief certificates for corpora: what the values alone determine, at a fraction of a certificate's cost.

Keys, ranks within rows and the layer as a whole are not examined. Where `clear_basis` applies, the part of attention
without effect follows from norms; all other blocks take the same path as a full certificate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.capture.checks import block_checks
from thalweg.capture.record import Capture
from thalweg.decompose.value_space import Outward, outward_map, value_space
from thalweg.identifiability.effect_sums import EffectSums
from thalweg.identifiability.value_basis import clear_basis
from thalweg.receipt import Check, Receipt

BRIEF_VERDICTS = ("identifiable", "not identifiable by values")


@dataclass(frozen=True)
class BriefHead:
    """Figures of one head, each as in `Head`; whether keys reduce the ambiguity is not examined."""

    layer: int
    head: int
    rank: int
    ambiguity: int
    null_share: float
    null_share_row_sum: float
    pearson: float

    @property
    def verdict(self) -> str:
        return BRIEF_VERDICTS[self.ambiguity > 0]


@dataclass(frozen=True)
class BriefCertificate:
    """Brief figures of all heads of a capture, with the receipt."""

    heads: tuple[BriefHead, ...]
    receipt: Receipt


def brief_certificates(captures: Sequence[Capture]) -> list[BriefCertificate]:
    """Certify captures of one model by their values alone."""
    outward = [outward_map(block) for block in captures[0].blocks]
    return [_certify(capture, outward) for capture in captures]


def _certify(capture: Capture, outward: Sequence[Outward]) -> BriefCertificate:
    heads: list[BriefHead] = []
    parities, errors, allowed = [], [], []
    for layer, (block, projection) in enumerate(zip(capture.blocks, outward, strict=True)):
        sums = EffectSums(block.attention.heads)
        basis = clear_basis(block, projection)
        if basis is None:
            space = value_space(block)
            widest = int(space.supports.sum(-1).argmax())
            cut, ranks, ambiguities = space.cut, space.rank[:, widest].tolist(), space.ambiguity.amax(-1).tolist()
            for rows, weights, parity in block.rows():
                sums.add_rows(space, rows, weights, parity)
        else:
            cut, ranks, ambiguities = basis.cut, [basis.rank] * sums.heads, [basis.ambiguity] * sums.heads
            for _, weights, parity in block.rows():
                sums.add(*basis.split(weights), parity, basis.error)
        columns = zip(ranks, ambiguities, *sums.null_shares().tolist(), sums.pearson(), strict=True)
        heads += [BriefHead(layer, head, *figures) for head, figures in enumerate(columns)]
        parities.append(sums.parity)
        errors.append(sums.error)
        allowed.append(2 * cut)
    checks = {
        **block_checks(capture.blocks, tuple(parities)),
        "effective_output": Check(tuple(errors), max(allowed)),
    }
    return BriefCertificate(tuple(heads), Receipt(checks, {}, (), capture.learnt))
