"""What every check notices in every family: errors of stated sizes, planted in a right answer.

A check that cannot fail on a family says nothing there. So for each check and family an error of a
size that matters (``table``) is planted in the answer of a correct kernel (``subject``), on small
cases of the family (``cases``), and the answer judged by bounds (``measure``). The table says which
size is rejected, found by doubling and halving, or why none is. It is data (``power.json``), a page
(``docs/power.md``), and a test that plants every listed size anew.

    dmverify lab power                    measures the table and writes both
    dmverify faults --power [FAMILY]...           plants what is listed, and says what is lost

Not covered: how likely a fault is to be this large; several errors that cancel.
"""

from dmverify.lab.power.record import lost, make_table, missing, read_table
from dmverify.lab.power.table import DEVIATIONS

__all__ = ["DEVIATIONS", "lost", "make_table", "missing", "read_table"]
