"""The words of `cgemm`: how an operand lies in memory, and whether it is conjugated."""

from __future__ import annotations

import enum


class Op(enum.StrEnum):
    """What is done with an operand's matrices before they are multiplied; BLAS has the same three letters."""

    N = "n"
    """Nothing: they lie in memory as they are multiplied."""
    T = "t"
    """They lie transposed in memory."""
    C = "c"
    """They lie transposed in memory, and each element is the conjugate of what is multiplied."""

    @property
    def transposes(self) -> bool:
        """Whether the rows in memory are the columns that are multiplied."""
        return self is not Op.N

    def shape(self, rows: int, columns: int) -> tuple[int, int]:
        """In memory, of matrices that are multiplied as `rows` by `columns`."""
        return (columns, rows) if self.transposes else (rows, columns)
