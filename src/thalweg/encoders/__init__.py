"""Encoders with attention that is identifiable by construction: small keys, wide values, added heads."""

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
