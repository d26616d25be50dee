"""The subject of a certificate as Java writes it, after which Kafka names the principal of a TLS client. RFC 2253.

Only the subject is read: the certificate itself was parsed and verified by OpenSSL before. A library for X.509 writes
names in other ways (RFC 4514, OpenSSL's own), and an ACL names the principal letter by letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quorate.errors import Corrupt

__all__ = ["subject_name"]

_SEQUENCE, _SET, _OBJECT_ID, _VERSION = 0x30, 0x31, 0x06, 0xA0

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that RFC 2253 has a word for; others are written as numbers, and their values as `#` and hex."""

_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: Java takes the bytes of each for UTF-8.

So a name in T61 or BMP is mangled. It is mangled here, too, because an ACL that was written for Kafka names it so.
"""

_SPECIAL: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"


def subject_name(certificate: bytes) -> str:
    """Returns the subject of a DER certificate, such as "CN=alice,OU=a\\, b"; empty if it has none. Raises Corrupt."""
    try:
        return _name(_subject(certificate))
    except (IndexError, ValueError, StopIteration) as problem:
        raise Corrupt(f"the certificate's subject cannot be read: {problem}") from None


def _subject(certificate: bytes) -> bytes:
    """Returns the DER of the subject: the sixth field of TBSCertificate, if the first is its version. RFC 5280."""
    (_, _, whole) = next(_elements(certificate))
    (_, _, signed) = next(_elements(whole))
    fields = [(tag, content) for tag, _, content in _elements(signed)]
    at = 5 if fields[0][0] == _VERSION else 4
    tag, subject = fields[at]
    if tag != _SEQUENCE:
        raise ValueError(f"its tag is {tag:#x}")
    return subject


def _name(subject: bytes) -> str:
    """Writes the relative names, the last one first; the attributes of one are joined by +. RFC 2253 section 2."""
    relative = []
    for tag, _, content in _elements(subject):
        if tag != _SET:
            raise ValueError(f"a relative name has the tag {tag:#x}")
        relative.append("+".join(_attribute(pair) for _, _, pair in _elements(content)))
    return ",".join(reversed(relative))


def _attribute(pair: bytes) -> str:
    (kind, _, number), (tag, value, content) = _elements(pair)
    if kind != _OBJECT_ID:
        raise ValueError(f"an attribute's type has the tag {kind:#x}")
    dotted = _object_id(number)
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or tag not in _TEXTS:
        return f"{keyword or dotted}=#{value.hex()}"
    return f"{keyword}={_escaped(content.decode(errors='replace'))}"


def _escaped(text: str) -> str:
    """Escapes special characters wherever they stand, and blanks at both ends, as Java's AVA.toRFC2253String.

    >>> _escaped(" a, b ")
    '\\\\ a\\\\, b\\\\ '
    """
    first = len(text) - len(text.lstrip(_BLANKS))
    last = len(text.rstrip(_BLANKS))

    def written(at: int, letter: str) -> str:
        if letter == "\0":
            return "\\00"
        return "\\" + letter if letter in _SPECIAL or not first <= at < last else letter

    return "".join(written(at, letter) for at, letter in enumerate(text))


def _object_id(content: bytes) -> str:
    """Returns an object identifier with dots. X.690 section 8.19."""
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yields the elements that follow each other in `data`: tag, whole bytes, content. X.690 section 8.1."""
    at = 0
    while at < len(data):
        begin, tag, size = at, data[at], data[at + 1]
        at += 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[at : at + count])
            at += count
        if at + size > len(data):
            raise ValueError(f"an element of {size} bytes ends after its container")
        yield tag, data[begin : at + size], data[at : at + size]
        at += size
