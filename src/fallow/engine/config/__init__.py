"""The config: one TOML file, checked as a whole before anything of it is used.

places      where it is, and reading it; whether root may believe it is judged by fallow.readers.file_trust
syntax      TOML, and where it is none        positions   where each key stands
notations   how values are written            kinds       the types of the keys
model       the sections, with                fillers, rules
complaints  pydantic's findings in sentences  crosschecks keys that contradict each other
loading     all of it together                schema      the same for editors
"""

from fallow.engine.config.load import load, understand
from fallow.engine.config.location import (
    MACHINE,
    find,
    may_be_there,
    searched,
)
from fallow.engine.config.model import Config

__all__ = ["MACHINE", "Config", "find", "load", "may_be_there", "searched", "understand"]
