"""What happened to people, from public reports: read rightly, or refused in one line that helps."""

import pytest

pytest.importorskip("h5py")
pytest.importorskip("pynwb")

from .field import CASES
from .field.case import outcome


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_field_case(case, tmp_path, small_recording):
    found = outcome(case, small_recording, tmp_path)
    assert not found.wrong, f"{found.wrong}: {found.lines}"
    assert not found.unsaid, f"{found.unsaid}: {found.lines}"
