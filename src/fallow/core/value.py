"""Frozen values, as dataclasses would make them, at a fraction of the start-up time.

The standard library's dataclasses load `inspect` and compile code for each class: about 30 ms for the values
that `fallow pick` needs, half of what the whole program may take. A value keeps its fields in its `__dict__`
and finds defaults on its class, so there is nothing to generate. Type checkers see an ordinary frozen dataclass.
"""

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
        cls._allowed = frozenset(names)
        cls._required = frozenset(name for name in names if not hasattr(cls, name))
        cls.__init__, cls.__eq__, cls.__hash__, cls.__repr__ = _init, _equal, _hash, _repr
        cls.__setattr__ = cls.__delattr__ = _frozen
        return cls

    def replace(instance, **changes):
        """Return the same value with some fields changed."""
        if not changes.keys() <= instance._allowed:
            raise TypeError(f"{type(instance).__name__} has {instance.__match_args__}, and got {[*changes]}")
        changed = object.__new__(type(instance))
        changed.__dict__.update(instance.__dict__, **changes)
        return changed

    def fields(cls):
        """Return the names of a value's fields, in order."""
        return cls.__match_args__

    def _init(self, *args, **kwargs):
        given = self.__dict__
        if args:
            given.update(zip(self.__match_args__, args, strict=False))
        given.update(kwargs)
        is_lost = len(given) < len(args) + len(kwargs)  # one came twice, or there are too many
        if is_lost or not self._required <= given.keys() <= self._allowed:
            raise TypeError(f"{type(self).__name__} has {self.__match_args__}, and got {len(args)} and {[*kwargs]}")

    def _values(self):
        return tuple(getattr(self, name) for name in self.__match_args__)

    def _equal(self, other):
        return _values(self) == _values(other) if type(other) is type(self) else NotImplemented

    def _hash(self):
        return hash((type(self), _values(self)))

    def _repr(self):
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__name__}({shown})"

    def _frozen(self, name, *_):
        raise AttributeError(f"{type(self).__name__} is frozen; {name} cannot be changed")
