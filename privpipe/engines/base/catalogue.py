"""What a sink asks of the catalogue of an engine's session: tables written and renamed, views switched in one step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from privpipe.blocks.table_name import TableName

if TYPE_CHECKING:
    from privpipe.draws import Stream

__all__ = ["Catalogue", "Listed"]


@dataclass(frozen=True, kw_only=True)
class Listed:
    """What a catalogue states about one of its names.

    Parameters
    ----------
    kind : {"table", "view"}
    text : str
        The query of a view, as it was written; else nothing.
    columns : tuple of str
    properties : mapping of text to text
    """

    kind: Literal["table", "view"]
    columns: tuple[str, ...] = ()
    text: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


class Catalogue(ABC):
    """The session's own catalogue, in which releases can be published.

    Names are whole (see `whole`). Each method is one step: it is done or not, and what fails is an `EngineError`.
    """

    @abstractmethod
    def whole(self, name: TableName) -> TableName:
        """The name with its catalogue and database, which exist.

        Raises
        ------
        DataError
            There is no such database.
        UnsupportedError
            A catalogue in which no views are published.
        """

    @abstractmethod
    def names(self, like: TableName) -> tuple[str, ...]:
        """Last parts of the names of all tables and views in the database of `like`."""

    @abstractmethod
    def find(self, name: TableName) -> Listed | None:
        """What stands under a name; None: nothing."""

    @abstractmethod
    def write(self, table: Any, name: TableName, stream: Stream, properties: Mapping[str, str]) -> int:
        """Make a table of the visible columns of an engine's table, in keyed order of its ids, as `Engine.write` does.

        Gives back the number of records.

        Nothing of the source comes along but the cells: names and types are those of the logical schema. Where the
        files lie on this machine, they are their owner's alone until `publish`.
        """

    @abstractmethod
    def write_texts(self, texts: Mapping[str, str], name: TableName, properties: Mapping[str, str]) -> None:
        """Make a table of texts by name, in the columns ``name`` and ``document``."""

    @abstractmethod
    def texts(self, name: TableName) -> Mapping[str, str]:
        """The texts of such a table; nothing where there is none."""

    @abstractmethod
    def publish(self, name: TableName, new: TableName, properties: Mapping[str, str]) -> None:
        """Add these properties to a table, rename it, and let those read it that the catalogue permits."""

    @abstractmethod
    def make_view(self, name: TableName, text: str, properties: Mapping[str, str]) -> None:
        """Make a view of a name that nothing has; an error where something has it."""

    @abstractmethod
    def switch_view(self, name: TableName, text: str) -> None:
        """Give a view another query, in one step: who reads it sees the old one or the new one."""

    @abstractmethod
    def drop(self, name: TableName) -> None:
        """Take away what stands under a name, with its files; nothing where there is nothing."""
