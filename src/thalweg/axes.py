"""Names of tensor axes, used in annotations and in comments where a shape changes.

`query` is the receiving position (row), `key` the giving one (column); in results they are called `target` and
`source`. `kv_head` is a key-value head, shared by a group of heads. `size` and `value_size` are the widths of one head,
`width` that of the residual stream. `taken` and `found` are the widths of a probe's input and output.
"""

from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

Hidden = Float[Tensor, "token width"]
HeadMaps = Float[Tensor, "head query key"]
TokenMap = Float[Tensor, "query key"]
Step = Float[Tensor, "target source"]  # one block, over all tokens of a capture
LayerMaps = Float[Tensor, "layer query key"]
ScoreArray = Float[ndarray, "target source"]
LayerArray = Float[ndarray, "layer query key"]

__all__ = ["Hidden", "HeadMaps", "TokenMap", "Step", "LayerMaps", "ScoreArray", "LayerArray"]
