"""Remembers the JVM's packages, classes and static methods by name, so that the driver asks for each only once.

py4j asks the JVM for `functions`, and then for `col` in it, each time `fn.col` is called, and the JVM looks for a name
in each jar on its path. For a report these were 26,000 of 76,000 messages.
"""

from __future__ import annotations

from typing import Final

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView

__all__ = ["remember_names"]


def remember_names(jvm: JVMView) -> None:
    """Makes `jvm`, and every package and class that is reached through it, remember the names that it was asked for.

    Values of static fields are not remembered, as they may change.
    """
    jvm.__class__ = _View


class _Remembering:
    """Keeps what a name was found to be as an attribute of its own, so that `__getattr__` is not called again."""

    def __getattr__(self, name: str) -> object:
        found: object = super().__getattr__(name)  # type: ignore[misc]  # of the class of py4j beside this one
        if type(found) in _REMEMBERING:
            found.__class__ = _REMEMBERING[type(found)]
        if isinstance(found, JavaClass | JavaMember | JavaPackage):
            self.__dict__[name] = found
        return found


class _View(_Remembering, JVMView):
    pass


class _Package(_Remembering, JavaPackage):
    pass


class _Class(_Remembering, JavaClass):
    pass


_REMEMBERING: Final[dict[type, type]] = {JavaPackage: _Package, JavaClass: _Class}
