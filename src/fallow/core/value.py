"""Frozen values, as dataclasses would make them, at a fraction of the start-up time.

The standard library's dataclasses load `inspect` and compile code for each class: about 30 ms for the values
that `fallow pick` needs, half of what the whole program may take. A value keeps its fields in its `__dict__`
and finds defaults on its class, so there is nothing to generate. Type checkers see an ordinary frozen dataclass.
"""

from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar, dataclass_transform

    T = TypeVar("T")

    @dataclass_transform(frozen_default=True)
    def value(cls: type[T]) -> type[T]:
        """Make the class a frozen value of its annotated fields."""
        return cls

    def replace(instance: T, **changes: object) -> T:
        """Return the same value with some fields changed."""
        return instance

    def fields(cls: type[object]) -> tuple[str, ...]:
        """Return the names of a value's fields, in order."""
        return ()

else:

    def value(cls):
        """Make the class a frozen value of its annotated fields."""
        inherited = getattr(cls, "__match_args__", ())
        names = (*inherited, *(name for name in cls.__annotations__ if name not in inherited))
        cls.__match_args__ = names
        cls._required = frozenset(name for name in names if not hasattr(cls, name))
        cls._allowed = frozenset(names)
        cls._values = staticmethod(attrgetter(*names) if len(names) > 1 else _values_of(names))
        cls.__init__ = _init
        cls.__eq__ = _equal
        cls.__hash__ = _hash
        cls.__repr__ = _repr
        cls.__setattr__ = cls.__delattr__ = _frozen
        return cls

    def replace(instance, **changes):
        """Return the same value with some fields changed."""
        cls = type(instance)
        if not changes.keys() <= cls._allowed:
            raise TypeError(f"{cls.__name__} does not have: {', '.join(sorted(changes.keys() - cls._allowed))}")
        made = cls.__new__(cls)
        made.__dict__.update(instance.__dict__, **changes)  # which was complete, so the new one is
        return made

    def fields(cls):
        """Return the names of a value's fields, in order."""
        return cls.__match_args__

    def _init(self, *args, **kwargs):
        if args:
            names = self.__match_args__
            twice = [name for name in names[: len(args)] if name in kwargs] if kwargs else None
            if twice or len(args) > len(names):
                said = ", ".join(twice) if twice else "too many values"
                raise TypeError(f"{type(self).__name__} got {said} more than once")
            kwargs.update(zip(names, args, strict=False))
        given = kwargs.keys()
        if given != self._allowed and not (self._required <= given <= self._allowed):
            wrong = sorted(self._required - given) or sorted(given - self._allowed)
            raise TypeError(f"{type(self).__name__} is missing or does not have: {', '.join(wrong)}")
        self.__dict__.update(kwargs)

    def _values_of(names):
        return lambda self: tuple(getattr(self, name) for name in names)

    def _equal(self, other):
        return self._values(self) == other._values(other) if type(other) is type(self) else NotImplemented

    def _hash(self):
        return hash((type(self), *self._values(self)))

    def _repr(self):
        shown = ", ".join(
            f"{name}={value!r}" for name, value in zip(self.__match_args__, self._values(self), strict=True)
        )
        return f"{type(self).__name__}({shown})"

    def _frozen(self, name, *_):
        raise AttributeError(f"{type(self).__name__} is frozen; {name} cannot be changed")
