"""What a heartbeat changes: every state with every wish, and what must never happen. KIP-631."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft import Uuid
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest
from kraft.service.controller_pb2 import BrokerControlState
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import (
    CONTROL_STATE_NUMBERS,
    BrokerTransition,
    ControlState,
    RegisteredBroker,
    check_epoch,
    decide,
)

FENCED, UNFENCED = ControlState.FENCED, ControlState.UNFENCED
SHUTTING_DOWN, NOW = ControlState.CONTROLLED_SHUTDOWN, ControlState.SHUTDOWN_NOW

REGISTERED_AT = 100
EPOCH = 100


def registration(state: ControlState) -> RegisteredBroker:
    return RegisteredBroker(
        broker_epoch=EPOCH,
        offset=REGISTERED_AT,
        fenced=state is FENCED,
        in_controlled_shutdown=state is SHUTTING_DOWN,
    )


def heartbeat(*, wants: str = "", offset: int = REGISTERED_AT, epoch: int = EPOCH) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=epoch,
        current_metadata_offset=offset,
        want_fence="fence" in wants,
        want_shut_down="shut down" in wants,
    )


def transition(
    state: ControlState,
    beat: BrokerHeartbeatRequest,
    *,
    leads: bool = False,
    lowest: int | None = None,
    shutdown_offset: int | None = None,
) -> BrokerTransition:
    return decide(
        registration(state),
        beat,
        leads_any=lambda: leads,
        lowest_active_offset=lambda: lowest,
        shutdown_offset=shutdown_offset,
    )


WISHES = ("", "fence", "shut down", "fence, shut down")

TABLE = {
    # state: wants                leads nothing, behind / caught up    leads something, behind / caught up
    (FENCED, ""): ((FENCED, UNFENCED), (FENCED, UNFENCED)),
    (FENCED, "fence"): ((FENCED, FENCED), (FENCED, FENCED)),
    (FENCED, "shut down"): ((NOW, NOW), (NOW, NOW)),
    (FENCED, "fence, shut down"): ((NOW, NOW), (NOW, NOW)),
    (UNFENCED, ""): ((UNFENCED, UNFENCED), (UNFENCED, UNFENCED)),
    (UNFENCED, "fence"): ((FENCED, FENCED), (FENCED, FENCED)),
    (UNFENCED, "shut down"): ((NOW, NOW), (SHUTTING_DOWN, SHUTTING_DOWN)),
    (UNFENCED, "fence, shut down"): ((NOW, NOW), (NOW, NOW)),
    # The offsets of the others decide here; see the next table. In this one they know enough.
    (SHUTTING_DOWN, ""): ((NOW, NOW), (SHUTTING_DOWN, SHUTTING_DOWN)),
    (SHUTTING_DOWN, "fence"): ((NOW, NOW), (SHUTTING_DOWN, SHUTTING_DOWN)),
    (SHUTTING_DOWN, "shut down"): ((NOW, NOW), (SHUTTING_DOWN, SHUTTING_DOWN)),
    (SHUTTING_DOWN, "fence, shut down"): ((NOW, NOW), (SHUTTING_DOWN, SHUTTING_DOWN)),
}


def test_the_table_has_every_state_with_every_wish() -> None:
    assert set(product((FENCED, UNFENCED, SHUTTING_DOWN), WISHES)) == set(TABLE)


@pytest.mark.parametrize("caught_up", [False, True], ids=["behind", "caught up"])
@pytest.mark.parametrize("leads", [False, True], ids=["leads nothing", "leads"])
@pytest.mark.parametrize(("state", "wants"), TABLE, ids=[f"{state.value}, wants {w or 'in'}" for state, w in TABLE])
def test_state_and_wish_lead_to(state: ControlState, wants: str, leads: bool, caught_up: bool) -> None:
    beat = heartbeat(wants=wants, offset=REGISTERED_AT - (not caught_up))

    result = transition(state, beat, leads=leads, lowest=200, shutdown_offset=200)

    assert result.current is state
    assert result.next is TABLE[state, wants][leads][caught_up]
    assert result.is_caught_up is caught_up


@pytest.mark.parametrize(
    ("shutdown_offset", "lowest", "then"),
    [
        (200, 199, SHUTTING_DOWN),
        (200, 200, NOW),
        (200, 201, NOW),
        (200, -1, SHUTTING_DOWN),
        (200, None, NOW),
        (None, 500, SHUTTING_DOWN),
        (None, None, SHUTTING_DOWN),
    ],
    ids=[
        "an active broker is behind",
        "all are just there",
        "all are beyond",
        "one has not been heard of",
        "there is no active broker",
        "a new controller does not know the offset",
        "nor are there active brokers",
    ],
)
def test_it_goes_when_the_active_brokers_know_who_leads_now(
    shutdown_offset: int | None, lowest: int | None, then: ControlState
) -> None:
    """I-67."""
    result = transition(SHUTTING_DOWN, heartbeat(), lowest=lowest, shutdown_offset=shutdown_offset)

    assert result.next is then


@pytest.mark.parametrize(
    ("state", "wants", "offset", "answer"),
    [
        (FENCED, "fence", 99, (False, True, False)),
        (FENCED, "fence", 100, (True, True, False)),
        (FENCED, "", 100, (True, False, False)),
        (UNFENCED, "fence", 100, (True, True, False)),
        (UNFENCED, "shut down", 100, (True, True, True)),
        (SHUTTING_DOWN, "shut down", 100, (True, False, False)),
    ],
)
def test_answers_what_comes_next(state: ControlState, wants: str, offset: int, answer: tuple[bool, bool, bool]) -> None:
    response = transition(state, heartbeat(wants=wants, offset=offset)).response

    assert (response.is_caught_up, response.is_fenced, response.should_shut_down) == answer
    assert response.error_code == ErrorCode.NONE


def test_passes_the_directories_on() -> None:
    lost, closed = Uuid(b"lost-directory--"), Uuid(b"closed-directory")
    beat = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=EPOCH, offline_log_dirs=(lost,), cordoned_log_dirs=(closed,)
    )

    result = transition(UNFENCED, beat)

    assert result.offline_log_dirs == (lost,)
    assert result.cordoned_log_dirs == (closed,)


@pytest.mark.parametrize("epoch", [99, 101, -1])
def test_refuses_a_heartbeat_of_another_epoch(epoch: int) -> None:
    """I-68."""
    with pytest.raises(ApiError, match=f"broker 1 has broker epoch 100, not {epoch}") as refusal:
        transition(UNFENCED, heartbeat(epoch=epoch))

    assert refusal.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_refuses_a_broker_that_is_not_registered() -> None:
    with pytest.raises(ApiError, match="broker 7 is not registered") as refusal:
        check_epoch(7, registration=None, broker_epoch=3)

    assert refusal.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_knows_the_registration_of_the_right_epoch() -> None:
    known = registration(UNFENCED)

    assert check_epoch(1, registration=known, broker_epoch=EPOCH) is known


@pytest.mark.parametrize("state", [FENCED, UNFENCED])
@pytest.mark.parametrize("wants", ["", "fence"])
def test_asks_nothing_costly_of_a_broker_that_stays(state: ControlState, wants: str) -> None:
    """A heartbeat in steady state looks at neither the partitions nor the other brokers."""

    def costly() -> bool:
        raise AssertionError("asked")

    decide(
        registration(state), heartbeat(wants=wants), leads_any=costly, lowest_active_offset=costly, shutdown_offset=None
    )


def test_a_broker_in_controlled_shutdown_stays_in_it_when_it_is_fenced_for_silence() -> None:
    silent = RegisteredBroker(broker_epoch=1, offset=1, fenced=True, in_controlled_shutdown=True)

    assert silent.state is SHUTTING_DOWN


def test_only_the_unfenced_are_active() -> None:
    assert [state for state in ControlState if state.is_active] == [UNFENCED]
    assert [state for state in ControlState if state.is_fenced] == [FENCED, NOW]


@given(
    state=st.sampled_from([FENCED, UNFENCED, SHUTTING_DOWN]),
    wants=st.sampled_from(WISHES),
    offset=st.integers(-1, 300),
    leads=st.booleans(),
    lowest=st.none() | st.integers(-1, 300),
    shutdown_offset=st.none() | st.integers(0, 300),
)
def test_laws(
    state: ControlState, wants: str, offset: int, leads: bool, lowest: int | None, shutdown_offset: int | None
) -> None:
    beat = heartbeat(wants=wants, offset=offset)

    after = transition(state, beat, leads=leads, lowest=lowest, shutdown_offset=shutdown_offset).next

    if state is FENCED and not after.is_fenced:  # I-66
        assert offset >= REGISTERED_AT
        assert not beat.want_fence
    if state is UNFENCED and after.is_fenced:  # I-64: it asked for it
        assert wants
    if state is SHUTTING_DOWN:  # no way back
        assert after in (SHUTTING_DOWN, NOW)
    if after is NOW and state is SHUTTING_DOWN:  # I-67
        assert not leads
        assert shutdown_offset is not None
        assert lowest is None or lowest >= shutdown_offset
    if after is NOW and state is UNFENCED:
        assert not leads or wants == "fence, shut down"


def test_the_numbers_are_those_of_the_proto() -> None:
    numbers = {f"BROKER_CONTROL_STATE_{state.name}": number for state, number in CONTROL_STATE_NUMBERS.items()}

    assert dict(BrokerControlState.items()) == {"BROKER_CONTROL_STATE_UNSPECIFIED": 0} | numbers
