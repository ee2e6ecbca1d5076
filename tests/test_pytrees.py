"""Files come back as they went, and odd ones are told in one sentence."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seerax.errors import UserError
from seerax.system import files, pytrees


@pytest.fixture
def tree():
    return {
        "a": jnp.arange(6.0).reshape(2, 3),
        "b": (jnp.int32(4), jax.random.key(3)),
        "c": jnp.bool_(True),
    }


def test_a_tree_comes_back_as_it_went(tmp_path, tree):
    path = tmp_path / "tree.safetensors"
    pytrees.save_tree(path, tree, {"hello": [1, 2]})
    back = pytrees.load_tree(path, jax.eval_shape(lambda: tree))
    assert pytrees.read_about(path) == {"hello": [1, 2]}
    for ours, theirs in zip(jax.tree.leaves(tree), jax.tree.leaves(back), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    assert (jax.random.key_data(tree["b"][1]) == jax.random.key_data(back["b"][1])).all()
    np.testing.assert_array_equal(tree["a"], back["a"])


def test_other_shapes_and_names_are_refused(tmp_path, tree):
    path = tmp_path / "tree.safetensors"
    pytrees.save_tree(path, tree, {})
    with pytest.raises(UserError, match=r"is \[2, 3\], not \[3, 3\]"):
        pytrees.load_tree(path, {**tree, "a": jnp.zeros((3, 3))})
    with pytest.raises(UserError, match="is float32, not int32"):
        pytrees.load_tree(path, {**tree, "a": jnp.zeros((2, 3), int)})
    with pytest.raises(UserError, match="arrays differ"):
        pytrees.load_tree(path, {**tree, "d": jnp.zeros(3)})


def test_an_array_that_nobody_asked_for_is_refused(tmp_path, tree):
    path = tmp_path / "tree.safetensors"
    pytrees.save_tree(path, {**tree, "d": jnp.zeros(3)}, {})
    with pytest.raises(UserError, match=r"arrays differ, \['d'\] for one"):
        pytrees.load_tree(path, tree)


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff" * 64])
def test_a_file_of_another_kind_is_told(tmp_path, tree, content):
    path = tmp_path / "odd.safetensors"
    path.write_bytes(content)
    with pytest.raises(UserError):
        pytrees.read_about(path)
    with pytest.raises(UserError):
        pytrees.load_tree(path, tree)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    files.write_bytes(path, b"old")
    monkeypatch.setattr(
        files.os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError("disk full"))
    )
    with pytest.raises(OSError, match="disk full"):
        files.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_synced_before_it_is_renamed_and_its_folder_after(tmp_path, monkeypatch):
    """A power failure at any moment leaves the old file or the new one."""
    done: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor):
        done.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def renamed(source, target):
        done.append(("rename", str(source)))
        replace(source, target)

    monkeypatch.setattr(files.os, "fsync", synced)
    monkeypatch.setattr(files.os, "replace", renamed)
    files.write_bytes(tmp_path / "file", b"new")
    (first, written), (second, source), *last = done
    assert (first, second) == ("sync", "rename") and written == source
    assert last == [("sync", str(tmp_path.resolve()))]


def test_links_out_of_a_folder_are_refused_at_any_depth(tmp_path):
    home = tmp_path / "home"
    (home / "a" / "b").mkdir(parents=True)
    (home / "file").write_text("ours")
    (home / "a" / "b" / "inner").symlink_to("../../file")
    files.refuse_links_out(home)
    (home / "a" / "b" / "outer").symlink_to("../../../elsewhere")
    with pytest.raises(UserError, match="outer is a link that leads out of"):
        files.refuse_links_out(home)
