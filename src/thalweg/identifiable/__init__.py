"""Encoders whose attention is identifiable by construction: small keys, wide values, heads that may be added."""

from thalweg.identifiable.attention import HeadProjections, MultiheadAttention
from thalweg.identifiable.encoder import TransformerEncoder, TransformerEncoderLayer
from thalweg.identifiable.inherit import Inherited, config_like, inherit
from thalweg.identifiable.model import (
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
