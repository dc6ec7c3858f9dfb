"""P1: attention beyond the head size is not determined, tokens keep their identity, and states mix.

BERT-base is not available. MiniLM (6 layers, heads of size 32) replaces it, and the bundled model where derivatives of
the whole model are needed for many sentences.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from papers.claims.lab import Lab
from papers.claims.ledger import Effect, Figure, Finding, above, as_mean, claim, mean_of
from thalweg.attribution.mixing import mixing
from thalweg.attribution.mixing_result import DISTANCES
from thalweg.identifiability.result import Certificate
from thalweg.identifiability.trust import alternatives, trust
from thalweg.probing.probe import probe
from thalweg.probing.result import Probes
from thalweg.rates import Rate

MINILM = "all-MiniLM-L6-v2"
HEAD = 32  # head size of MiniLM
LENGTHS = (HEAD // 2, HEAD, 2 * HEAD, 3 * HEAD, 4 * HEAD, 8 * HEAD)
MOVED = 0.01  # share of a row that counts as a noticeable change
NOVEL = "pieces of Alice in Wonderland"


def pieces(lab: Lab, length: int, count: int) -> list[list[int]]:
    """Pieces of a novel as token ids, cut at about the same places for every length."""
    cuts = lab.once("pieces", lambda: lab.pieces(lab.packaged(MINILM), LENGTHS, lab.many(8, 2)))
    return [piece for piece in cuts if len(piece) == length][:count]


def certificates(lab: Lab, length: int) -> list[Certificate]:
    """Certificates of pieces of a novel on MiniLM."""

    def get() -> list[Certificate]:
        return [trust(lab.packaged(MINILM), piece) for piece in pieces(lab, length, 8)]

    return lab.once(f"certificates {length}", get)


def by_piece(lab: Lab, length: int, figure: Callable[[Certificate], float]) -> list[float]:
    return [figure(certificate) for certificate in certificates(lab, length)]


@claim(
    "rank-bound",
    "P1",
    "attention identifiability",
    "The rank of values times output projection is at most the head size, so for longer inputs attention has a null "
    "space of at least n − d_v dimensions (a theorem; checked numerically).",
)
def _(lab: Lab) -> Finding:
    length = 4 * HEAD

    def bounded(certificate: Certificate) -> float:
        return float(
            np.mean([head.rank <= HEAD and head.null_dimension >= length - HEAD for head in certificate.heads])
        )

    def free(certificate: Certificate) -> float:
        return float(np.mean([head.null_dimension for head in certificate.heads]))

    return Finding(
        f"{MINILM}, {lab.many(8, 2)} {NOVEL} of {length} tokens, all 72 heads",
        (Effect("share of heads within the bound", mean_of(by_piece(lab, length, bounded)), 0.999),),
        (Figure("dimensions of the null space", mean_of(by_piece(lab, length, free))),),
    )


@claim(
    "other-attention",
    "P1",
    "attention identifiability",
    "For inputs longer than the head size, other valid attention distributions give the same output.",
)
def _(lab: Lab) -> Finding:
    layers = range(0, 6, 3 if lab.quick else 1)

    def measure() -> list[list[float]]:
        """For every piece: the share of rows that can move, how far, and the largest change of the output."""
        subject, figures = lab.packaged(MINILM), []
        for piece in pieces(lab, 3 * HEAD, 4):
            rows = [0, len(piece) // 2]
            others = [alternatives(subject, piece, layer, layer, target=rows).polytope for layer in layers]
            distances = [float(distance) for other in others if other is not None for distance in other.total_variation]
            changes = [other.moved / other.allowed for other in others if other is not None]
            share = sum(distance > MOVED for distance in distances) / (len(rows) * len(layers))
            figures.append([share, float(np.mean(distances or [0.0])), max(changes, default=0.0)])
        return figures

    figures = np.array(lab.kept("alternatives", measure))
    return Finding(
        f"{MINILM}, {len(figures)} {NOVEL} of {3 * HEAD} tokens, one head in each of {len(layers)} layers, two rows; "
        "the model was run with the alternative weights",
        (
            Effect(f"share of rows of which {MOVED:.0%} or more can move", mean_of(figures[:, 0]), 0.5),
            Effect(
                "largest change of the model's output, relative to the rounding tolerance",
                mean_of(figures[:, 2]),
                1.0,
                "below",
            ),
        ),
        (Figure("share that can move (total variation)", mean_of(figures[:, 1])),),
    )


@claim(
    "effective-length",
    "P1",
    "effective attention, by length",
    "Effective attention equals raw attention up to the head size (here: at half of it); beyond, their correlation "
    "falls as inputs grow.",
)
def _(lab: Lab) -> Finding:
    lengths = [length for length in LENGTHS if length != 3 * HEAD]

    def pearson(certificate: Certificate) -> float:
        return float(np.nanmean([head.pearson for head in certificate.heads]))

    by_length = {length: np.array(by_piece(lab, length, pearson)) for length in lengths}
    steps = pairwise(lengths[1:])
    return Finding(
        f"{MINILM}, heads of size {HEAD}, {lab.many(8, 2)} {NOVEL} for each length",
        (
            Effect(f"r at {HEAD // 2} tokens", mean_of(by_length[HEAD // 2]), 0.999),
            *(Effect(f"r at {b} − r at {a}", mean_of(by_length[b] - by_length[a]), 0.0, "below") for a, b in steps),
        ),
        tuple(Figure(f"r at {length}", mean_of(by_length[length])) for length in lengths[1:]),
    )


@claim(
    "separator",
    "P1",
    "effective attention to [SEP]",
    "Much of the attention that middle layers pay to [SEP] lies in the null space: effective attention pays it less.",
)
def _(lab: Lab) -> Finding:
    length = 4 * HEAD

    def share(kind: str) -> Callable[[Certificate], float]:
        def of(certificate: Certificate) -> float:
            middle = [head for head in certificate.heads if 1 <= head.layer <= 4]
            return float(np.mean([getattr(head.received["[SEP]"], kind) for head in middle]))

        return of

    raw, effective = (np.array(by_piece(lab, length, share(kind))) for kind in ("raw", "effective"))
    return Finding(
        f"{MINILM}, {lab.many(8, 2)} {NOVEL} of {length} tokens, layers 2 to 5",
        (Effect("attention to [SEP], raw − effective", mean_of(raw - effective)),),
        (Figure("raw", mean_of(raw)), Figure("effective", mean_of(effective))),
    )


def _probes(lab: Lab) -> Probes:
    def get() -> Probes:
        return probe(
            lab.packaged(MINILM),
            lab.sentences(lab.many(300, 40)),
            parts=("whole", "angle", "norm"),
            folder=lab.folder("probes") / MINILM,
        )

    return lab.once("probes", get)


def _probed(lab: Lab) -> str:
    counts = _probes(lab).counts
    return f"{MINILM}, sentences of MRPC: {', '.join(f'{count} {name}' for name, count in counts.items())}"


TOP = 6


def _tokens(lab: Lab) -> int:
    return next(count for name, count in _probes(lab).counts.items() if "token" in name)


@claim(
    "identity-depth",
    "P1",
    "token identifiability, by layer",
    "Tokens become less identifiable from their hidden states with depth.",
)
def _(lab: Lab) -> Finding:
    curve = _probes(lab).curve("linear", "cosine")
    return Finding(
        _probed(lab),
        (Effect(f"linear probe, layer 1 − layer {TOP}", above(curve[1], curve[TOP], _tokens(lab))),),
        tuple(Figure(f"layer {layer}", as_mean(curve[layer], _tokens(lab))) for layer in range(1, TOP + 1)),
    )


@claim(
    "identity-kept",
    "P1",
    "abstract; token identifiability",
    "Hidden states largely keep the identity of their token: at the top, a learned probe still recovers most of them.",
)
def _(lab: Lab) -> Finding:
    rate = _probes(lab).curve("mlp", "cosine")[TOP]
    return Finding(_probed(lab), (Effect(f"mlp probe at layer {TOP}", as_mean(rate, _tokens(lab)), 0.5),))


@claim(
    "cosine-probe",
    "P1",
    "token identifiability",
    "Probes trained and matched by cosine recover more tokens than those using L2 distance.",
)
def _(lab: Lab) -> Finding:
    pairs = {kind: [_probes(lab).curve(kind, way)[TOP] for way in ("cosine", "l2")] for kind in ("linear", "mlp")}
    return Finding(
        _probed(lab),
        tuple(
            Effect(f"{kind}, cosine − l2 at layer {TOP}", above(first, second, _tokens(lab)))
            for kind, (first, second) in pairs.items()
        ),
    )


@claim("angle", "P1", "abstract", "A token's identity is mostly in the angle of its state, not in its length.")
def _(lab: Lab) -> Finding:
    probes = _probes(lab)
    angle, norm = (probes.curve("linear", "cosine", part)[TOP] for part in ("angle", "norm"))
    whole: Rate = probes.curve("linear", "cosine")[TOP]
    return Finding(
        _probed(lab),
        (Effect(f"linear probe at layer {TOP}, shown the angle − the length", above(angle, norm, _tokens(lab))),),
        (Figure("angle", as_mean(angle, _tokens(lab))), Figure("whole state", as_mean(whole, _tokens(lab)))),
    )


@claim(
    "learnt-probe",
    "P1",
    "token identifiability, by layer",
    "Without a learned map, nearest-neighbour recovery fails first.",
)
def _(lab: Lab) -> Finding:
    learnt, plain = (_probes(lab).curve(kind, "cosine")[TOP] for kind in ("mlp", "identity"))
    return Finding(
        _probed(lab),
        (Effect(f"mlp − identity at layer {TOP}", above(learnt, plain, _tokens(lab))),),
        (Figure("identity", as_mean(plain, _tokens(lab))),),
    )


MIXED = "the bundled model (4 layers, a classifier)"


def _mixed(lab: Lab) -> dict[str, np.ndarray]:
    """Hidden token attribution from the embeddings to each layer, text by text: [text layer …]."""

    def measure() -> dict[str, list]:
        figures = []
        for text in lab.sentences(lab.many(24, 2)):
            figures.append(
                mixing(lab.bundled(), text, ["hidden_token_attribution"]).figures["hidden_token_attribution"]
            )
        names = ("own", "not_own", "by_distance")
        return {name: [getattr(figure, name).tolist() for figure in figures] for name in names}

    return {name: np.array(values) for name, values in lab.kept("mixing", measure).items()}


@claim(
    "own-token",
    "P1",
    "hidden token attribution, by layer",
    "A token's contribution to its own state decreases from layer to layer, and remains the largest for most tokens.",
)
def _(lab: Lab) -> Finding:
    own, lost = _mixed(lab)["own"], _mixed(lab)["not_own"]
    steps = range(own.shape[1] - 1)
    return Finding(
        f"{MIXED}, {len(own)} sentences of MRPC",
        (
            *(
                Effect(
                    f"own share, layer {step + 2} − layer {step + 1}",
                    mean_of(own[:, step + 1] - own[:, step]),
                    0.0,
                    "below",
                )
                for step in steps
            ),
            Effect("share of tokens with a larger contributor, last layer", mean_of(lost[:, -1]), 0.5, "below"),
        ),
        (Figure("own share at the top", mean_of(own[:, -1])),),
    )


@claim(
    "not-own",
    "P1",
    "hidden token attribution, by layer",
    "At the last layer about 30 % of the tokens are no longer the largest contributor to their own state, and most "
    "still are.",
)
def _(lab: Lab) -> Finding:
    lost = _mixed(lab)["not_own"]
    return Finding(
        f"{MIXED}, {len(lost)} sentences of MRPC",
        (
            Effect("share of tokens with a larger contributor, last layer − first", mean_of(lost[:, -1] - lost[:, 0])),
            Effect("last layer", mean_of(lost[:, -1]), 0.5, "below"),
        ),
    )


@claim(
    "neighbours",
    "P1",
    "hidden token attribution, neighbours",
    "The nearest neighbours contribute most, and the share of far ones grows with depth.",
)
def _(lab: Lab) -> Finding:
    shares = _mixed(lab)["by_distance"]  # [text layer distance]
    names = list(DISTANCES)
    top = shares[:, -1]
    return Finding(
        f"{MIXED}, {len(shares)} sentences of MRPC",
        (
            Effect("at the top, first neighbours − second", mean_of(top[:, 0] - top[:, 1])),
            Effect("second − third", mean_of(top[:, 1] - top[:, 2])),
            Effect(f"share from {names[-1]} away, last layer − first", mean_of(shares[:, -1, -1] - shares[:, 0, -1])),
        ),
    )
