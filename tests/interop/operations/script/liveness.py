"""Brokers fall silent, leave in order, come back, lose their ends; and who leads meanwhile."""

from __future__ import annotations

from typing import Final

from kraft.errors import ErrorCode as E
from quorate.metadata.features import ELR_VERSION
from quorate.metadata.partitions import RECOVERED, RECOVERING
from quorate.nouns import NodeId
from tests.interop.operations.script.ask import (
    PREFERRED,
    SAFE_DOWNGRADE,
    UNCLEAN,
    UPGRADE,
    alter_isr,
    beat,
    come_back,
    create,
    delete,
    elect,
    grow,
    laid_out,
    reassign,
    register,
    update,
)
from tests.interop.operations.step import Beat, Step, Until

OTHERS: Final = (101, 102, 103)
"""All brokers but 104."""


def fenced(*brokers: NodeId) -> Until:
    return Until(
        name=f"{brokers} are fenced",
        holds=lambda view: brokers == tuple(broker.id for broker in view.state.brokers if broker.fenced),
    )


def active(broker_id: NodeId, word: str) -> Until:
    return Until(name=f"{broker_id} is there {word}", holds=lambda view: view.state.brokers.is_active(broker_id))


FENCED: Final[tuple[Step, ...]] = (
    create(
        "topics to lose brokers",
        laid_out("lost", (104, 101), (101, 104), (104, 103)),
        laid_out("strict", (104, 103, 102), min_insync_replicas="2"),
        laid_out("alone", (104,)),
    ),
    Beat(name="104 falls silent", end=(104,)),
    fenced(104),
    alter_isr("a fenced broker into an ISR", "lost", [101, 104], E.INELIGIBLE_REPLICA),
    elect("the preferred one is fenced", PREFERRED, {"lost": [0]}, E.PREFERRED_LEADER_NOT_AVAILABLE),
    elect("nobody is left", UNCLEAN, {"alone": [0]}, E.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    elect("nobody is left that is preferred", PREFERRED, {"alone": [0]}, E.PREFERRED_LEADER_NOT_AVAILABLE),
    alter_isr("one more is lost", "strict", [103]),
    create("onto a fenced broker", laid_out("onto-fenced", (104, 101))),
    create("onto fenced brokers only", laid_out("only-fenced", (104,)), errors=[E.INVALID_REPLICA_ASSIGNMENT]),
    grow("more onto fenced brokers only", "alone", 2, E.INVALID_REPLICA_ASSIGNMENT, assignments=[(104,)]),
    reassign("to a fenced broker", "lost", [101, 104, 103], number=1),
    Beat(name="104 is heard of again", begin=(104,)),
    active(104, "again"),
    alter_isr("it is in sync again", "lost", [101, 104]),
    alter_isr("it is in sync again, strictly", "strict", [103, 102, 104]),
    elect("it is preferred", PREFERRED, {"lost": [0], "strict": [0]}),
)

GONE: Final[tuple[Step, ...]] = (
    create(
        "topics to lose their ends",
        laid_out("ends", (104, 103), min_insync_replicas="2"),
        laid_out("ends-1", (104, 103)),
    ),
    alter_isr("only the leader is left", "ends", [104]),
    alter_isr("only the leader is left, with less asked for", "ends-1", [104]),
    Beat(name="104 will be beaten by hand", end=(104,)),
    beat("104 wants a fence", 104, want_fence=True),
    beat("104 wants a fence still", 104, want_fence=True),
    beat("104 wants no fence", 104),
    Beat(name="the others cannot have heard that 104 wants to go", end=OTHERS),
    beat("104 wants to shut down", 104, want_shut_down=True),
    beat("104 wants to shut down still", 104, want_shut_down=True),
    register("104 comes back too soon", 104, E.DUPLICATE_BROKER_REGISTRATION, process=1),
    Beat(name="the others have heard it", begin=OTHERS),
    come_back("104 comes back, and says nothing of its stop", 104, process=1, clean=False),
    beat("104 has not caught up", 104, current_metadata_offset=0),
    beat("104 has caught up", 104),
    elect("uncleanly where the ELR has one", UNCLEAN, {"ends": [0]}, E.ELECTION_NOT_NEEDED),
    beat("104 goes at once", 104, want_fence=True, want_shut_down=True),
    Beat(name="104 is heard of once more", begin=(104,)),
    active(104, "once more"),
)


def unclean(word: str, process: int) -> tuple[Step, ...]:
    """Brokers 103 and 104 go one after the other, and come back in the wrong order; `word` tells two rounds apart."""
    risky, safe, three = (f"{each}-{word.replace(' ', '-')}" for each in ("risky", "safe", "three"))
    return (
        create(
            f"topics to lose records, {word}",
            laid_out(risky, (103, 104), unclean_leader_election_enable="true"),
            laid_out(safe, (103, 104)),
            laid_out(three, (103, 104, 102), min_insync_replicas="2"),
        ),
        Beat(name=f"103 and 104 will be beaten by hand, {word}", end=(103, 104)),
        *(alter_isr(f"only 103 is left in {each}", each, [103]) for each in (risky, safe, three)),
        beat(f"103 goes, {word}", 103, want_fence=True),
        beat(f"104 goes, too, {word}", 104, want_fence=True),
        elect(f"nobody is there, {word}", UNCLEAN, {safe: [0]}, E.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        beat(f"104 is the first to be there again, {word}", 104),
        Beat(name=f"104 is heard of, {word}", begin=(104,)),
        elect(f"the preferred one is not there, {word}", PREFERRED, {safe: [0]}, E.PREFERRED_LEADER_NOT_AVAILABLE),
        elect(f"somebody is to lead, {word}", UNCLEAN, {safe: [0]}),
        alter_isr(f"not while it recovers, {word}", safe, [104, 103], E.INVALID_REQUEST, recovery=RECOVERING),
        alter_isr(f"it still recovers, {word}", safe, [104], recovery=RECOVERING),
        alter_isr(f"it has recovered, {word}", safe, [104], recovery=RECOVERED),
        come_back(f"103 has lost its ends, {word}", 103, process=process, clean=False),
        beat(f"103 is there again, {word}", 103),
        Beat(name=f"103 is heard of again, {word}", begin=(103,), end=(104,)),
        alter_isr(f"both are in sync, {word}", safe, [104, 103]),
        elect(f"103 leads again, {word}", PREFERRED, {safe: [0]}),
        beat(f"104 goes once more, {word}", 104, want_fence=True),
        come_back(f"104 stopped in order, {word}", 104, process=process + 1, clean=True),
        beat(f"104 is there again, {word}", 104),
        Beat(name=f"104 is heard of again, {word}", begin=(104,)),
        delete(f"the topics that lost records, {word}", risky, safe, three),
    )


LOST: Final[tuple[Step, ...]] = (
    *unclean("with ELR", 10),
    update("no ELR for a while", (ELR_VERSION, 0, SAFE_DOWNGRADE)),
    *unclean("without ELR", 20),
    update("ELR again", (ELR_VERSION, 1, UPGRADE)),
)


LAST_KNOWN: Final[tuple[Step, ...]] = (
    create(
        "topics whose last leader is remembered",
        laid_out("remembered", (103, 104)),
        laid_out("led-meanwhile", (103, 104)),
        laid_out("moved-meanwhile", (103, 104)),
    ),
    Beat(name="103 and 104 will be beaten by hand, to be remembered", end=(103, 104)),
    *(alter_isr(f"103 is alone in {each}", each, [103]) for each in ("remembered", "led-meanwhile", "moved-meanwhile")),
    beat("103 goes, and is remembered", 103, want_fence=True),
    beat("104 goes, though it leads nothing", 104, want_fence=True),
    update("ELR goes off while nobody leads", (ELR_VERSION, 0, SAFE_DOWNGRADE)),
    beat("104 is back, which may not lead", 104),
    Beat(name="104 is heard of while nobody leads", begin=(104,)),
    elect("104 leads all the same", UNCLEAN, {"led-meanwhile": [0]}),
    alter_isr("104 has recovered meanwhile", "led-meanwhile", [104], recovery=RECOVERED),
    reassign("a move while nobody leads", "moved-meanwhile", [104, 102]),
    reassign("the move is called off", "moved-meanwhile", None, E.INVALID_REPLICA_ASSIGNMENT),
    update("ELR comes on while nobody leads", (ELR_VERSION, 1, UPGRADE)),
    beat("103 is back, and leads", 103),
    Beat(name="103 is heard of, and leads", begin=(103,)),
    elect("it leads already", PREFERRED, {"remembered": [0]}, E.ELECTION_NOT_NEEDED),
    alter_isr("both are in sync meanwhile", "led-meanwhile", [104, 103]),
    elect("103 leads what 104 led", PREFERRED, {"led-meanwhile": [0]}),
    delete("the topics whose last leader was remembered", "remembered", "led-meanwhile", "moved-meanwhile"),
)

SCRIPT: Final[tuple[Step, ...]] = (*FENCED, *GONE, *LOST, *LAST_KNOWN)
