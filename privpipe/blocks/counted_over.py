"""Whom an entry over classes counts: records, persons or households."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import Doc

from privpipe.blocks.marks import Stricter
from privpipe.errors import UsageError

if TYPE_CHECKING:
    from privpipe.blocks.way import Way

__all__ = ["CountedOver", "Over"]

Over = Literal["records", "persons", "households"]


@dataclass(frozen=True, kw_only=True, repr=False)
class CountedOver:
    """The parameter `over` of entries that count in classes.

    With `over` a class of n members is one of n different records, persons (`person_id`) or households
    (`household_id`), and a value occurs as often as different ones of them have it: one who has two values counts once
    for each. Its share in a class is that of the members who have it. Where values are told apart (distinct, entropy
    and recursive l-diversity, p-sensitivity) the value of a member is the set of those it has in the class, and a class
    in which all have some value in common is one of a single value.

    Parameters
    ----------
    over : {"records", "persons", "households"}, optional
        Default: persons where the policy has a `person_id`, else records.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> KAnonymity(k=5, over="households").counts_over()
    'households'
    """

    over: Annotated[
        Over | None,
        Stricter("equal"),
        Doc("whom a class counts; left out: persons where the policy has a person_id, else records"),
    ] = None

    def __post_init__(self) -> None:
        """Refuse `over` where a count of anything but records is not defined.

        Raises
        ------
        UsageError
        """
        super().__post_init__()  # type: ignore[misc]  # beside a Guarantee
        if self.over in (None, "records"):
            return
        way: Way = self.way  # type: ignore[attr-defined]
        if self.needs_population or not way.classes_alone:  # type: ignore[attr-defined]
            raise UsageError(f"{type(self).__name__}: counts records, and cannot be had over {self.over}")

    def counts_over(self) -> Over | None:
        """Whom it counts; None: as the policy does."""
        return self.over
