"""Options of a verb as one record, so that a verb with many options takes few arguments.

click hands every option to a function as an argument of its own; ``as_record`` gathers those that a
dataclass has fields for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any


def as_record(
    kind: type[Any], name: str = "options"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gathers options of a verb; it stands below the options that it gathers.

    Args:
        kind: A dataclass; each field is called as the option's argument is.
        name: Name of the argument in which the verb takes the record.
    """
    options = tuple(field.name for field in fields(kind))

    def gathering(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def gathered(*context: Any, **given: Any) -> Any:
            record = kind(**{option: given.pop(option) for option in options})
            return command(*context, **given, **{name: record})

        return gathered

    return gathering
