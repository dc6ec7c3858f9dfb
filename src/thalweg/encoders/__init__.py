"""Encoders whose attention is identifiable by construction: small keys, wide values, heads that may be added."""

from thalweg.encoders.attention import HeadProjections, MultiheadAttention
from thalweg.encoders.encoder import TransformerEncoder, TransformerEncoderLayer
from thalweg.encoders.inherit import Inherited, config_like, inherit
from thalweg.encoders.model import (
    IdentifiableConfig,
    IdentifiableForSequenceClassification,
    IdentifiableModel,
)

__all__ = [
    "HeadProjections",
    "IdentifiableConfig",
    "IdentifiableForSequenceClassification",
    "IdentifiableModel",
    "Inherited",
    "MultiheadAttention",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "config_like",
    "inherit",
]
