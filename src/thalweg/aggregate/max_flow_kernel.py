"""Compiled kernels for layered max flow; the only module that imports numba.

A network is a cube `capacity [layer node node]` with zeros where there is no edge; `capacity[l, i, k]` leads from node
i of level l+1 down to node k of level l. A task routes a supply at level `high` to a demand at level `low` through the
layers between, so a pair of tokens and a fan of flow towards a hub are the same problem.
"""

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np

UNLIMITED_PHASES = 1 << 60
FAN_PHASES = 6  # a fan that has not met its goal by then rarely does, and pairs do not depend on it


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without the GIL, cached on disk if there is a writable folder."""
    function = inspect.unwrap(function)  # shape checks of the test run wrap it; numba needs the bare function
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba has no folder to cache in (read-only install and home)
        return numba.njit(nogil=True)(function)


@compiled
def min_sum(left, right, out):
    """out[i, j] = Σ_k min(left[i, k], right[k, j])."""
    for i in range(left.shape[0]):
        for j in range(right.shape[1]):
            out[i, j] = 0.0
        for k in range(left.shape[1]):
            bound = left[i, k]
            if bound > 0.0:
                for j in range(right.shape[1]):
                    out[i, j] += min(bound, right[k, j])


@compiled
def alive(next_alive, v):
    """The first node from v on that is still active; path halving keeps the chains short."""
    while next_alive[v] != v:
        next_alive[v] = next_alive[next_alive[v]]
        v = next_alive[v]
    return v


@compiled
def prepare(n, low, high, demand, limits, reach, limit, useful):
    """The intake limit of each node, and the nodes that lie on a path from supply to demand.

    Node v takes in at most what it can pass on, so a search loses nothing by stopping there. Without `limits` and
    `reach` (no rows) every node is useful and has no limit.
    """
    for level in range(low, high + 1):
        for k in range(n):
            v = level * n + k
            limit[v] = limits[level - 1, k] if limits.shape[0] > 0 else np.inf
            useful[v] = limit[v] > 0.0 and (reach.shape[0] == 0 or reach[level - 1, k] > 0.0)
            if level == low:
                limit[v] = min(limit[v], demand[k])


@compiled
def descend(
    capacity, n, low, high, supply, goal, useful,
    flow, sent, got, touched, limit, current, next_alive,
):  # fmt: skip
    """A blocking flow that only goes down, depth first, straight on before sideways: phase 1 of Dinic.

    Returns its value and the number of touched edges. Every child on the stack is one level lower, so the state of the
    search is one entry per level, and the lowest layer is a plain loop.
    """
    eps = 1e-15 * goal
    total = 0.0
    count = 0
    for level in range(low, high + 1):
        for k in range(n):
            v = level * n + k
            current[v] = k
            next_alive[v] = v if useful[v] and limit[v] > eps else v + 1
    next_alive[(high + 1) * n] = (high + 1) * n
    nodes = np.empty(high + 1, np.int64)
    want = np.empty(high + 1)
    rest = np.empty(high + 1)
    for k in range(n):
        if total >= goal * (1.0 - 1e-12):
            break
        if next_alive[high * n + k] != high * n + k:
            continue
        level = high
        nodes[level] = k
        want[level] = rest[level] = min(supply[k], limit[high * n + k], goal - total)
        while True:
            node = nodes[level]
            v = level * n + node
            below = (level - 1) * n
            row = (v - n) * n
            left = rest[level]
            c = current[v]  # n and more: wrapped around, from node 0 up to this one
            m = node
            room = 0.0
            while left > eps:
                w = alive(next_alive, below + (c if c < n else c - n))
                m = w - below
                if c < n and m >= n:
                    c = n
                    continue
                if c >= n and m >= node:
                    c = 2 * n
                    break
                c = m if c < n else m + n
                room = min(capacity[row + m] - flow[row + m], limit[w])
                if room > eps:
                    if level > low + 1:
                        break
                    amount = min(room, left)
                    if flow[row + m] == 0.0 and count < touched.size:
                        touched[count] = row + m
                        count += 1
                    flow[row + m] += amount
                    got[m] += amount
                    left -= amount
                    limit[w] -= amount
                    if limit[w] <= eps:
                        next_alive[w] = w + 1
                    if left <= eps:
                        break
                c += 1
            current[v] = c
            rest[level] = left
            if c < 2 * n and left > eps:
                level -= 1
                nodes[level] = m
                want[level] = rest[level] = min(room, left)
                continue
            amount = want[level] - left
            limit[v] -= amount
            if c >= 2 * n or limit[v] <= eps:  # nothing more gets through
                next_alive[v] = v + 1
            if level == high:
                sent[k] += amount
                total += amount
                break
            level += 1
            if amount > 0.0:
                rest[level] -= amount
                edge = ((level - 1) * n + nodes[level]) * n + node
                if flow[edge] == 0.0 and count < touched.size:
                    touched[count] = edge
                    count += 1
                flow[edge] += amount
    return total, count


@compiled
def label(capacity, flow, n, low, high, supply, sent, demand, got, eps, useful, distance, next_new, queue):
    """Label distances to the demand in the residual graph; return that of the nearest open supply, or -1.

    Searching from the demand means that every step of the descent leads towards it.
    """
    for v in range(low * n, (high + 1) * n):
        distance[v] = -1
        next_new[v] = v if useful[v] else v + 1
    next_new[(high + 1) * n] = (high + 1) * n
    head = 0
    tail = 0
    for k in range(n):
        v = low * n + k
        if useful[v] and demand[k] - got[k] > eps:
            distance[v] = 0
            next_new[v] = v + 1
            queue[tail] = v
            tail += 1
    while head < tail:
        v = queue[head]
        head += 1
        level = v // n
        node = v - level * n
        if level == high and supply[node] - sent[node] > eps:
            return distance[v]
        if level < high:  # from above, where the edge has room
            end = (level + 2) * n
            w = alive(next_new, end - n)
            while w < end:
                edge = (w - n) * n + node
                if capacity[edge] - flow[edge] > eps:
                    distance[w] = distance[v] + 1
                    next_new[w] = w + 1
                    queue[tail] = w
                    tail += 1
                w = alive(next_new, w + 1)
        if level > low:  # from below, by undoing flow
            end = level * n
            w = alive(next_new, end - n)
            while w < end:
                if flow[(v - n) * n + w - end + n] > eps:
                    distance[w] = distance[v] + 1
                    next_new[w] = w + 1
                    queue[tail] = w
                    tail += 1
                w = alive(next_new, w + 1)
    return -1


@compiled
def route(
    capacity, n, low, high, supply, demand, goal, max_phases, limits, reach,
    flow, sent, got, touched, limit, useful, distance, current, next_alive, queue, stack,
):  # fmt: skip
    """Send as much as possible from supply to demand (Dinic), stopping early when the goal is reached.

    No node is sent more than its limit, which avoids dead ends and loses nothing. `flow`, `sent` and `got` come as
    zeros and hold the constructed flow. Returns its value, the number of phases, of touched edges, and whether no
    augmenting path is left; if so, `distance < 0` marks the source side of a minimum cut among the useful nodes.
    """
    eps = 1e-15 * goal
    enough = goal * (1.0 - 1e-12)
    first = low * n
    last = (high + 1) * n
    prepare(n, low, high, demand, limits, reach, limit, useful)
    phases = 0
    total = 0.0
    count = 0
    if high > low:
        total, count = descend(
            capacity, n, low, high, supply, goal, useful,
            flow, sent, got, touched, limit, current, next_alive,
        )  # fmt: skip
        phases = 1
    bases = np.empty(stack.size, np.int64)
    want = np.empty(stack.size)
    done = np.empty(stack.size)
    while total < enough and phases < max_phases:
        nearest = label(
            capacity, flow, n, low, high, supply, sent, demand, got, eps, useful,
            distance, next_alive, queue,
        )  # fmt: skip
        if nearest < 0:
            return total, phases + 1, count, True
        for v in range(first, last):
            current[v] = 0
            next_alive[v] = v if distance[v] >= 0 else v + 1
        next_alive[last] = last
        for k in range(n):
            if distance[high * n + k] != nearest or supply[k] - sent[k] <= eps:
                continue
            depth = 0
            stack[0] = high * n + k
            bases[0] = high * n
            want[0] = min(supply[k] - sent[k], goal - total)
            done[0] = 0.0
            while True:
                v = stack[depth]
                base = bases[depth]  # first node of this level; the level below starts at base - n
                node = v - base
                step = distance[v] - 1
                rest = want[depth] - done[depth]
                if step < 0:
                    amount = min(rest, demand[node] - got[node])
                    if amount > 0.0:
                        got[node] += amount
                        done[depth] += amount
                        rest -= amount
                c = current[v]
                w = v
                room = 0.0
                if base == first and c <= n:
                    c = n + 1
                if step < 0:
                    c = 2 * n + 1
                while c <= n and rest > eps:  # down: straight on first (the residual edge is wide)
                    w = v - n if c == 0 else alive(next_alive, base - n + c - 1)
                    if w >= base:
                        c = n + 1
                        break
                    if c > 0:
                        c = w - base + n + 1
                    if distance[w] == step:
                        edge = (v - n) * n + w - base + n
                        room = capacity[edge] - flow[edge]
                        if room > eps:
                            break
                    c += 1
                if c > n and base == high * n:
                    c = 2 * n + 1
                while n < c <= 2 * n and rest > eps:  # back up, undoing flow
                    w = alive(next_alive, base + c - 1)
                    if w >= base + 2 * n:
                        c = 2 * n + 1
                        break
                    c = w - base + 1
                    if distance[w] == step:
                        room = flow[(w - n) * n + node]
                        if room > eps:
                            break
                    c += 1
                current[v] = c
                if rest > eps and c <= 2 * n:
                    depth += 1
                    stack[depth] = w
                    bases[depth] = base - n if w < base else base + n
                    want[depth] = min(room, rest)
                    done[depth] = 0.0
                    continue
                if rest > eps:  # a dead end for the rest of this phase
                    next_alive[v] = v + 1
                    distance[v] = -1
                amount = done[depth]
                if depth == 0:
                    sent[node] += amount
                    total += amount
                    break
                depth -= 1
                if amount > 0.0:
                    done[depth] += amount
                    w = stack[depth]
                    if w > v:
                        edge = (w - n) * n + node
                        if flow[edge] == 0.0 and count < touched.size:
                            touched[count] = edge
                            count += 1
                        flow[edge] += amount
                    else:
                        flow[(v - n) * n + w - base + n] -= amount
            if total >= enough:
                break
        phases += 1
    return total, phases, count, False


@compiled
def cut(capacity, n, low, high, supply, demand, limits, useful, distance):
    """Capacity of the cut that `distance < 0` marks.

    Nodes that the supply cannot reach join the demand's side, and nodes that cannot reach the demand join the supply's:
    no edge leads from the second to the first.
    """
    if limits.shape[0] > 0:
        for level in range(low, high + 1):
            for k in range(n):
                v = level * n + k
                if not useful[v]:
                    distance[v] = 0 if limits[level - 1, k] > 0.0 else -1
    value = 0.0
    for k in range(n):
        if distance[high * n + k] >= 0:
            value += supply[k]
        if distance[low * n + k] < 0:
            value += demand[k]
    for v in range((low + 1) * n, (high + 1) * n):
        if distance[v] < 0:
            below = (v // n - 1) * n
            for m in range(n):
                if distance[below + m] >= 0:
                    value += capacity[(v - n) * n + m]
    return value


@compiled
def route_all(
    capacity, low, high, supplies, demands, tasks, goals, max_phases, limits, reach,
    flow, lower, upper, phases, sents, gots,
):  # fmt: skip
    """Route every task (a row of supplies and a row of demands); `flow` is zeroed scratch memory.

    `limits [level demand node]` bounds what a node can pass on to a demand, `reach [level supply node]` what can arrive
    there; both may be empty.
    """
    n = capacity.shape[1]
    cube = capacity.reshape(-1)
    nodes = (high + 1) * n
    touched = np.empty(flow.size, np.int64)
    limit = np.empty(nodes)
    useful = np.empty(nodes, np.bool_)
    distance = np.empty(nodes, np.int64)
    current = np.empty(nodes, np.int64)
    next_alive = np.empty(nodes + 1, np.int64)
    queue = np.empty(nodes, np.int64)
    stack = np.empty(nodes + 1, np.int64)
    for t in range(tasks.shape[0]):
        s, d = tasks[t]
        sents[t] = 0.0
        gots[t] = 0.0
        towards = limits[:, min(d, limits.shape[1] - 1)]
        lower[t], phases[t], count, exhausted = route(
            cube, n, low, high, supplies[s], demands[d], goals[t], max_phases,
            towards, reach[:, min(s, reach.shape[1] - 1)], flow, sents[t], gots[t], touched,
            limit, useful, distance, current, next_alive, queue, stack,
        )  # fmt: skip
        upper[t] = goals[t]
        if exhausted:
            value = cut(cube, n, low, high, supplies[s], demands[d], towards, useful, distance)
            upper[t] = min(goals[t], value)
        if count == touched.size:
            flow[:] = 0.0
        else:
            for e in range(count):
                flow[touched[e]] = 0.0


@compiled
def route_one(capacity, low, high, supply, demand, goal):
    """Route one task to the end: the flow cube, what left each supply and reached each demand, and the source side."""
    n = capacity.shape[1]
    nodes = (high + 1) * n
    flow = np.zeros(capacity.size)
    sent = np.zeros(n)
    got = np.zeros(n)
    distance = np.full(nodes, -1, np.int64)
    nothing = np.empty((0, 1))
    route(
        capacity.reshape(-1), n, low, high, supply, demand, goal, UNLIMITED_PHASES, nothing, nothing,
        flow, sent, got, np.empty(flow.size, np.int64), np.empty(nodes), np.empty(nodes, np.bool_),
        distance, np.empty(nodes, np.int64), np.empty(nodes + 1, np.int64), np.empty(nodes, np.int64),
        np.empty(nodes + 1, np.int64),
    )  # fmt: skip
    return flow.reshape(capacity.shape), sent, got, distance.reshape(-1, n) < 0


class KernelPool:
    """The kernels over one network, on as many threads as numba is configured for.

    Every row or task is computed on its own, so the result does not depend on the number of threads, which comes from
    the configuration: `numba.get_num_threads` would start OpenMP with that many threads, in torch too, where small
    matrices then wait for them.
    """

    def __init__(self, capacity: np.ndarray):
        self.capacity = capacity
        self.workers: int = numba.config.NUMBA_NUM_THREADS  # pyright: ignore
        self.scratch = [np.zeros(capacity.size) for _ in range(self.workers)]
        self.pool = ThreadPoolExecutor(self.workers)

    def __enter__(self) -> "KernelPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown()

    def share(self, work: Callable[[int, slice], None], count: int) -> None:
        ends = [count * w // self.workers for w in range(self.workers + 1)]
        list(self.pool.map(work, range(self.workers), map(slice, ends, ends[1:])))

    def min_sum(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        out = np.empty((left.shape[0], right.shape[1]))
        self.share(lambda w, mine: min_sum(left[mine], right, out[mine]), len(left))
        return out

    def route(self, low, high, supplies, demands, tasks, goals, max_phases, limits, reach):
        """Lower, upper and phases of every task, and what its ends sent and got."""
        count, n = len(tasks), self.capacity.shape[1]
        out = (
            np.empty(count), np.empty(count), np.empty(count, np.int64),
            np.empty((count, n)), np.empty((count, n)),
        )  # fmt: skip

        def work(w: int, mine: slice) -> None:
            route_all(
                self.capacity, low, high, supplies, demands, tasks[mine], goals[mine], max_phases,
                limits, reach, self.scratch[w], *(array[mine] for array in out),
            )  # fmt: skip

        self.share(work, count)
        return out

    def pairs(self, low, high, supplies, demands, tasks, goals, limits, reach):
        return self.route(low, high, supplies, demands, tasks, goals, UNLIMITED_PHASES, limits, reach)[:3]

    def fans(self, low, high, supplies, demands, goals):
        """Route one flow per row of supplies and of demands: what left and what arrived."""
        tasks = np.repeat(np.arange(len(goals))[:, None], 2, axis=1)
        nowhere = np.zeros((0, 1, 1))
        return self.route(low, high, supplies, demands, tasks, goals, FAN_PHASES, nowhere, nowhere)[3:]
