"""Which response belongs to which request, and how it is called as an RPC: read off the names of the messages."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Final

from kraft import Message

REQUEST: Final = "Request"


def rpc_of(request: type[Message]) -> str:
    """The name of the API: CreateTopics for CreateTopicsRequest."""
    assert request.__name__.endswith(REQUEST), request
    return request.__name__.removesuffix(REQUEST)


@cache
def response_to(request: type[Message]) -> type[Message]:
    """The class of the answer, which stands beside the request's."""
    response: type[Message] = getattr(importlib.import_module(request.__module__), f"{rpc_of(request)}Response")
    return response
