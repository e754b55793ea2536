"""What every test gets: folders of its own, and a skip for what needs a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees or touches the user's store. Compiled binaries are shared by the tests of one run."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "binaries"))
    monkeypatch.delenv("WARPSMITH_STORE", raising=False)
    return home


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from warpsmith.devices.cuda.available import cuda_device_count

    if cuda_device_count() > 0:
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no GPU with the cuda extra here"))
