"""All planted bugs of the tree, put together."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import BUGS
from tests.mutation.planted_broker import BROKER_BUGS
from tests.mutation.planted_callers import CALLER_BUGS
from tests.mutation.planted_command import COMMAND_BUGS
from tests.mutation.planted_database import DATABASE_BUGS
from tests.mutation.planted_orders import ORDER_BUGS
from tests.mutation.planted_page import PAGE_BUGS
from tests.mutation.planted_past import PAST_BUGS
from tests.mutation.planted_plans import PLAN_BUGS
from tests.mutation.planted_readers import READER_BUGS
from tests.mutation.planted_records import RECORD_BUGS
from tests.mutation.planted_rests import REST_BUGS
from tests.mutation.planted_rights import RIGHT_BUGS
from tests.mutation.planted_wire import WIRE_BUGS
from tests.mutation.planted_writes import WRITE_BUGS

__all__ = ["ALL"]

ALL: Final = (
    *BUGS,
    *BROKER_BUGS,
    *CALLER_BUGS,
    *COMMAND_BUGS,
    *DATABASE_BUGS,
    *ORDER_BUGS,
    *PAGE_BUGS,
    *PAST_BUGS,
    *PLAN_BUGS,
    *READER_BUGS,
    *RECORD_BUGS,
    *REST_BUGS,
    *RIGHT_BUGS,
    *WIRE_BUGS,
    *WRITE_BUGS,
)
