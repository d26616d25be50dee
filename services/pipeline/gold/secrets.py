"""Decides in Spark which config values may be secrets, by the rule of `quorate.controller.secrets`."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as fn

from quorate.controller.configs.broker import OF_LISTENER, OF_MECHANISM
from quorate.controller.secrets import PUBLIC
from quorate.metadata.configs import BROKER

__all__ = ["is_secret"]


def is_secret(resource_type: Column, config: Column) -> Column:
    """Returns a condition: the value of this config of this resource type is, or may be, a password."""
    known = ((resource_type == kind) & _is_public(kind, config) for kind in PUBLIC)
    return ~reduce(or_, known)


def _is_public(kind: int, config: Column) -> Column:
    if kind != BROKER:
        return config.isin(*PUBLIC[kind])
    listened = fn.regexp_extract(config, f"(?s)^{OF_LISTENER.pattern}", 1)
    of_mechanism = (listened.endswith(each) for each in OF_MECHANISM if each in PUBLIC[BROKER])
    return reduce(or_, of_mechanism, config.isin(*PUBLIC[BROKER]) | listened.isin(*PUBLIC[BROKER]))
