from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rejoinder.contract.errors import ConfigurationError
from rejoinder.launch.paths import ROOT_FOLDER, DataFolder, default_folder, write_private


@pytest.mark.parametrize(
    ("uid", "xdg", "expected"),
    [
        (0, "/elsewhere", ROOT_FOLDER),
        (1000, "/elsewhere", Path("/elsewhere/rejoinder")),
        (1000, "", Path("/home/somebody/.local/share/rejoinder")),
        (1000, "relative/is/ignored", Path("/home/somebody/.local/share/rejoinder")),
    ],
)
def test_the_default_folder_depends_on_who_asks(
    monkeypatch: pytest.MonkeyPatch, uid: int, xdg: str, expected: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_DATA_HOME", xdg)
    assert default_folder() == expected


def test_the_option_wins_over_the_variable_and_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("REJOINDER_DATA", raising=False)
    assert DataFolder.choose().root == default_folder()
    monkeypatch.setenv("REJOINDER_DATA", str(tmp_path / "a"))
    assert DataFolder.choose().root == tmp_path / "a"
    assert DataFolder.choose(tmp_path / "b").root == tmp_path / "b"


def test_a_relative_folder_and_a_home_folder_become_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert DataFolder.choose(".data").root == tmp_path / ".data"
    assert DataFolder.choose("~/x").root == Path("/home/somebody/x")


def test_a_folder_that_cannot_be_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigurationError, match="file") as caught:
            DataFolder(wrong).create()
        assert caught.value.field == "data"
    with pytest.raises(ConfigurationError, match="nobody-of-that-name"):
        DataFolder.choose("~nobody-of-that-name/x")


def test_others_cannot_look_inside(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "deep" / "data").create()
    assert stat.S_IMODE(data.root.stat().st_mode) in (0o700, 0o711)


def test_the_owner_key_is_kept_privately_and_read_back(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    assert data.read_owner_key() is None
    data.write_owner_key("rjk_first")
    data.write_owner_key("rjk_second")
    assert data.read_owner_key() == "rjk_second"
    assert stat.S_IMODE(data.owner_key.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["owner-key"]


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b'{"url": 1}', b"\xff\xfe", b'{"other": "x"}', b"null"])
def test_an_endpoint_file_that_says_nothing_is_no_endpoint(tmp_path: Path, junk: bytes) -> None:
    data = DataFolder(tmp_path)
    data.endpoint.write_bytes(junk)
    assert data.read_endpoint() is None


def test_an_endpoint_is_forgotten_only_by_the_one_who_wrote_it(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    data.write_endpoint("http://127.0.0.1:1")
    data.write_endpoint("http://127.0.0.1:2")
    data.clear_endpoint("http://127.0.0.1:1")
    assert data.read_endpoint() == "http://127.0.0.1:2"
    data.clear_endpoint("http://127.0.0.1:2")
    assert data.read_endpoint() is None
    data.clear_endpoint("http://127.0.0.1:2")


def test_a_file_that_cannot_be_put_in_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        write_private(tmp_path / "taken", b"x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]
