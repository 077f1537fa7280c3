"""The names of `typing` for what a pick loads. To load `typing` itself takes a tenth of the time of a pick.

Type checkers see `typing`. While the program runs, each name is a class that can be subscripted and does nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Generic, Literal, NoReturn, Protocol, TextIO, TypeVar
else:

    class _Name:
        def __class_getitem__(cls, _: object) -> object:
            return cls

    Any = ClassVar = Generic = Literal = NoReturn = Protocol = TextIO = _Name

    def TypeVar(_name: str) -> object:  # noqa: N802  as `typing` has it
        """Return what stands for any type."""
        return _Name


__all__ = ["Any", "ClassVar", "Generic", "Literal", "NoReturn", "Protocol", "TextIO", "TypeVar"]
