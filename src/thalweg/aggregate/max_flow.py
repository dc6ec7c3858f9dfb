"""Exact max flow between every pair of top and bottom nodes of a layered graph, with a certificate per pair."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Num

from thalweg.errors import InputError

if TYPE_CHECKING:
    from thalweg.aggregate.max_flow_kernel import KernelPool

Capacities = Sequence[Num[np.ndarray, "_ _"]] | Num[np.ndarray, "layer _ _"]
ReportProgress = Callable[[int, int], None]  # done, total
Layers = list[Float[np.ndarray, "_ _"]]

# Lower and upper are sums of a few thousand float64 terms in different order: closer than this, they are equal.
MEETING_RTOL = 4e-12
PAIRS_PER_REPORT = 512


@dataclass(frozen=True)
class Flow:
    """Max flow of every pair: the value of a flow that was constructed (`lower`) and of a cut (`upper`).

    `certified_by` counts the pairs by the stage of the solver that certified them.
    """

    lower: Float[np.ndarray, "target source"]
    upper: Float[np.ndarray, "target source"]
    certified_by: Mapping[str, int]

    @property
    def value(self) -> Float[np.ndarray, "target source"]:
        """The max flow: the value of the constructed flow."""
        return self.lower

    @property
    def gap(self) -> float:
        """The largest upper − lower over all pairs (0 where both are infinite)."""
        bounded = np.isfinite(self.lower)
        return float(np.max(self.upper[bounded] - self.lower[bounded], initial=0.0))


@dataclass(frozen=True)
class PairFlow:
    """One pair: the flow on every edge, and the nodes on the source side of a minimum cut, by level from 0 up."""

    edges: list[Float[np.ndarray, "_ _"]]
    source_side: list[Bool[np.ndarray, " _"]]

    @property
    def value(self) -> float:
        return float(self.edges[-1].sum())


def max_flow(
    capacities: Capacities,
    *,
    targets: Sequence[int] | Num[np.ndarray, " target"] | None = None,
    solver: str = "layered",
    progress: ReportProgress | None = None,
) -> Flow:
    """Maximum flow from each top node down to each bottom node if every edge carries at most its weight.

    F[i, j] = max Σ_k f_L[i, k]  subject to  0 <= f_l <= capacities[l-1],  inflow = outflow at levels 1..L-1, source
    (L, i), sink (0, j): attention flow of Abnar and Zuidema 2020, section 3 (there with capacities = 0.5 * mean over
    heads + 0.5 * identity, and rows normalised afterwards).

    `capacities[l]` has shape [n_{l+1}, n_l]; entry [i, k] is the edge from node i of level l+1 down to node k of level
    l: at least 0, or `inf` for an edge without a limit. The flow of a lower layer is the flow of `capacities[:l]`.
    `targets` selects top nodes; `progress(done, total)` counts pairs. `solver` is "layered" (exact to rounding) or
    "scipy" (integer capacities; its gap is the rounding error).

    >>> half = np.array([[0.5, 0.5], [0.25, 0.75]])
    >>> max_flow([half, half]).value  # two layers: the sum over k of min(upper[i, k], lower[k, j])
    array([[0.75, 1.  ],
           [0.5 , 1.  ]])

    Edges must not skip a level. Causal maps are the slow case: hardly any of their pairs share a flow, so that nearly
    every pair with a positive flow is solved on its own.
    """
    if solver not in SOLVERS:
        raise InputError(f"unknown solver {solver!r}; expected one of {', '.join(sorted(SOLVERS))}")
    layers = _checked_layers(capacities)
    rows = _checked_targets(targets, layers[-1].shape[0])
    finite, unbounded = _without_infinity(layers)
    flow = SOLVERS[solver](finite, rows, progress or (lambda done, total: None))
    lower, upper = (np.where(unbounded[rows], np.inf, bound) for bound in (flow.lower, flow.upper))
    return replace(flow, lower=lower, upper=upper)


def flow_of_pair(capacities: Capacities, target: int | np.integer, source: int | np.integer) -> PairFlow:
    """The flow from one top node to one bottom node on every edge, with a minimum cut.

    >>> pair = flow_of_pair([np.eye(2), np.array([[0.5, 0.5], [0.25, 0.75]])], 1, 0)
    >>> pair.edges[1]
    array([[0.  , 0.  ],
           [0.25, 0.  ]])
    """
    from thalweg.aggregate.max_flow_kernel import route_one

    layers = _checked_layers(capacities)
    _checked_targets([target], layers[-1].shape[0])
    if not 0 <= source < layers[0].shape[1]:
        raise InputError(f"source must be from 0 to {layers[0].shape[1] - 1}, got {source}")
    layers, unbounded = _without_infinity(layers)
    if unbounded[target, source]:
        raise InputError(f"the flow from {target} to {source} is unbounded: a path of infinite edges joins them")
    depth = len(layers)
    edges = [np.zeros_like(layer) for layer in layers]
    # the other bottom nodes are dead ends: on the source side they cut nothing
    sides = [np.arange(layers[0].shape[1]) != source]
    sides += [np.zeros(layer.shape[0], bool) for layer in layers]
    sides[depth][target] = True
    if depth == 1:
        edges[0][target, source] = layers[0][target, source]
        return PairFlow(edges, sides)
    cube = _cube(layers)
    supply, demand = cube[-1, target].copy(), cube[0, :, source].copy()
    trivial = min(supply.sum(), demand.sum())
    if trivial > 0:  # an unreachable goal makes the search run until it reaches a minimum cut
        flow, sent, got, side = route_one(cube, 1, depth - 1, supply, demand, 2.0 * trivial)
        for level in range(1, depth):
            sides[level] = side[level, : sides[level].size]
            rows, columns = edges[level].shape
            edges[level] = flow[level, :rows, :columns].copy()
        edges[-1] = np.zeros_like(layers[-1])
        edges[-1][target] = sent[: layers[-1].shape[1]]
        edges[0][:, source] = got[: layers[0].shape[0]]
    elif supply.sum() > 0:  # nothing enters the sink: cut there
        sides[1:depth] = [np.ones_like(side) for side in sides[1:depth]]
    return PairFlow(edges, sides)


def _checked_layers(capacities: Iterable[Any]) -> Layers:
    layers = [np.array(layer, dtype=np.float64) for layer in capacities]
    if not layers:
        raise InputError("capacities must be one [upper, lower] array per layer, got none")
    for number, layer in enumerate(layers):
        if layer.ndim != 2 or layer.size == 0:
            raise InputError(f"capacities[{number}] must be a non-empty [upper, lower] array, got shape {layer.shape}")
        if number and layer.shape[1] != layers[number - 1].shape[0]:
            nodes = layers[number - 1].shape[0]
            raise InputError(
                f"capacities[{number}] must have shape [upper, {nodes}] like the layer below, got {layer.shape}"
            )
        if not layer.min() >= 0:  # NaN as well
            raise InputError(f"capacities[{number}] must be at least 0, got {layer.min()}")
    with np.errstate(over="ignore"):
        total = sum(float(layer[np.isfinite(layer)].sum()) for layer in layers)
    if not np.isfinite(total):
        raise InputError("finite capacities must have a finite sum, got numbers that overflow; scale them down")
    return layers


def _checked_targets(targets, count: int) -> np.ndarray:
    if targets is None:
        return np.arange(count)
    rows = np.asarray(targets)
    if rows.size == 0:
        return np.zeros(0, np.int64)
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
        raise InputError(f"targets must be a sequence of integers, got {targets!r}")
    if rows.min() < 0 or rows.max() >= count:
        raise InputError(f"targets must be from 0 to {count - 1}, got {rows.tolist()}")
    return rows.astype(np.int64)


def _without_infinity(layers: Layers) -> tuple[Layers, Bool[np.ndarray, "target source"]]:
    """Replace infinite edges by finite ones that change no finite flow, and find the pairs with unbounded flow.

    A pair is unbounded exactly if infinite edges join it. Any other pair has a cut of finite edges only, so its flow is
    at most the sum of all finite capacities, and no edge needs more than that.
    """
    infinite = [np.isinf(layer) for layer in layers]
    joined = infinite[0]
    for layer in infinite[1:]:
        joined = layer @ joined
    if any(mask.any() for mask in infinite):
        ceiling = sum(float(layer[~mask].sum()) for layer, mask in zip(layers, infinite, strict=True))
        layers = [np.where(mask, max(ceiling, 1.0), layer) for layer, mask in zip(layers, infinite, strict=True)]
    return layers, joined


def _cube(layers: Layers) -> Float[np.ndarray, "layer node node"]:
    """All layers in one array; levels with fewer nodes are padded with nodes without edges."""
    width = max(max(layer.shape) for layer in layers)
    cube = np.zeros((len(layers), width, width))
    for slot, layer in zip(cube, layers, strict=True):
        slot[: layer.shape[0], : layer.shape[1]] = layer
    return cube


def _layered(layers: Layers, rows: np.ndarray, progress: ReportProgress) -> Flow:
    """Bounds for all pairs, then flows that many pairs share, then Dinic's algorithm for the remaining pairs.

    The network is turned upside down, so that the search starts at the bottom token: on most real maps it needs fewer
    steps that way. Supplies are the columns of the lowest layer, demands the rows of the highest.
    """
    from thalweg.aggregate.max_flow_kernel import KernelPool

    depth, sources = len(layers), layers[0].shape[1]
    stages: dict[str, int] = dict.fromkeys(("closed form", "shared flow", "constructed flow", "augmenting paths"), 0)
    total = rows.size * sources
    if depth == 1:
        return Flow(layers[0][rows], layers[0][rows], stages | {"closed form": total})

    cube = _cube([layer.T for layer in reversed(layers)])
    supplies, demands = cube[-1, :sources], cube[0].T[rows]
    with KernelPool(cube) as pool:
        reach, limits, upper = _bounds(pool, supplies, demands)
        lower = upper.copy() if depth == 2 else np.zeros_like(upper)
        unsettled = lower < upper * (1 - MEETING_RTOL)
        stages["closed form"] = total - int(unsettled.sum())  # two layers, or zero flow

        if depth >= 4 and unsettled.sum() > 4 * (rows.size + sources):  # below that, shared flows cost more
            lower = _shared_flows(pool, supplies, demands, reach, limits, upper)
            settled = unsettled & (lower >= upper * (1 - MEETING_RTOL))
            stages["shared flow"] = int(settled.sum())
            unsettled &= ~settled

        pairs = np.argwhere(unsettled)
        for start in range(0, len(pairs), PAIRS_PER_REPORT):
            progress(total - len(pairs) + start, total)
            batch = pairs[start : start + PAIRS_PER_REPORT]
            at = batch[:, 0], batch[:, 1]
            lower[at], upper[at], phases = pool.pairs(1, depth - 1, supplies, demands, batch, upper[at], limits, reach)
            stages["constructed flow"] += int((phases == 1).sum())
            stages["augmenting paths"] += int((phases > 1).sum())
    progress(total, total)
    np.minimum(lower, upper, out=lower)  # the last bit of a sum may be rounded up
    return Flow(lower.T.copy(), upper.T.copy(), stages)


def _bounds(
    pool: "KernelPool", supplies: Float[np.ndarray, "supply node"], demands: Float[np.ndarray, "demand node"]
) -> tuple[
    Float[np.ndarray, "level supply node"],
    Float[np.ndarray, "level demand node"],
    Float[np.ndarray, "supply demand"],
]:
    """Upper bounds of the flow: D [level supply node], U [level demand node] and F [supply demand], in O(L n³).

    Fix a demand j and let U(l, k) bound what node k of level l can pass on to j. Then node i of level l+1 passes on at
    most Σ_k min(A[i, k], U(l, k)), for each edge carries at most its capacity and at most what its lower end can pass
    on. This sum is a bound U(l+1, i), and U(1, k) = A_1[k, j] is one. Upside down, D(l, k) bounds what can arrive at k
    from supply i. All flow crosses level l, hence F[i, j] <= Σ_k min(D(l, k), U(l, k)) for every l.
    """
    cube = pool.capacity
    depth, nodes = cube.shape[:2]
    reach = np.empty((depth - 1, len(supplies), nodes))  # D of levels 1..L-1
    limits = np.empty((depth - 1, len(demands), nodes))  # U of levels 1..L-1
    reach[-1], limits[0] = supplies, demands
    for level in range(1, depth - 1):
        reach[-level - 1] = pool.min_sum(reach[-level], cube[-level - 1])
        limits[level] = pool.min_sum(limits[level - 1], cube[level].T.copy())
    upper = np.full((len(supplies), len(demands)), np.inf)
    for level in range(depth - 1):
        np.minimum(upper, pool.min_sum(reach[level], limits[level].T.copy()), out=upper)
    return reach, limits, upper


def _shared_flows(
    pool: "KernelPool",
    supplies: Float[np.ndarray, "supply node"],
    demands: Float[np.ndarray, "demand node"],
    reach: Float[np.ndarray, "level supply node"],
    limits: Float[np.ndarray, "level demand node"],
    upper: Float[np.ndarray, "supply demand"],
) -> Float[np.ndarray, "supply demand"]:
    """Lower bounds from 2 n flows of half depth that serve n² pairs.

    Choose one distribution over the nodes of a middle level, the hub. Construct for each supply a flow that arrives
    spread like the hub, and for each demand one that departs like it. A flow is a sum of paths and stays feasible when
    paths are thinned, so the two join to a flow of value Σ_k min(arrives_i(k), departs_j(k)).
    """
    depth = len(pool.capacity)
    middle = depth // 2
    hub = np.sqrt(reach[middle - 1].mean(0) * limits[middle - 1].mean(0))
    hub /= hub.sum()
    out, into = upper.max(1), upper.max(0)  # the most that any pair could need of a flow
    arrives = pool.fans(middle, depth - 1, supplies, out[:, None] * hub, out)[1]
    departs = pool.fans(1, middle, into[:, None] * hub, demands, into)[0]
    return np.minimum(pool.min_sum(arrives, departs.T.copy()), upper)


def _scipy(layers: Layers, rows: np.ndarray, progress: ReportProgress) -> Flow:
    """SciPy's integer max flow, pair by pair; capacities are rounded down, so that its flow is feasible.

    The cut in its residual graph, measured with the capacities before rounding, is the upper bound.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    sizes = [layers[0].shape[1], *(layer.shape[0] for layer in layers)]
    start = np.cumsum([0, *sizes])
    graph = np.zeros((start[-1], start[-1]))
    for level, layer in enumerate(layers):
        graph[start[level + 1] : start[level + 2], start[level] : start[level + 1]] = layer
    most = max(layers[-1].sum(1).max(), layers[0].sum(0).max(), 1e-300)
    scale = (2**31 - 1) / most / 2  # no flow is larger than `most`, so wider edges may be clipped
    integer = csr_array(np.floor(np.minimum(graph, most) * scale).astype(np.int32))
    lower = np.zeros((rows.size, sizes[0]))
    upper = np.zeros_like(lower)
    for place, row in enumerate(rows):
        for source in range(sizes[0]):
            flow = maximum_flow(integer, int(start[-2] + row), source)
            lower[place, source] = flow.flow_value / scale
            residual = csr_array(integer - flow.flow)
            residual.eliminate_zeros()
            reached = breadth_first_order(residual, start[-2] + row, return_predecessors=False)
            inside = np.zeros(start[-1], bool)
            inside[reached] = True
            upper[place, source] = max(graph[inside][:, ~inside].sum(), lower[place, source])
        progress((place + 1) * sizes[0], lower.size)
    return Flow(lower, upper, {"integer capacities": lower.size})


SOLVERS: dict[str, Callable[[Layers, np.ndarray, ReportProgress], Flow]] = {
    "layered": _layered,
    "scipy": _scipy,
}
