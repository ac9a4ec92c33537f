"""What is given away: Debian's package and the tarball of static programs. The package is
installed and removed below a directory of its own, with the machine's list of packages, so
that what it depends on is checked and the machine stays as it is."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
import tw

ROOT = pathlib.Path(tw.ROOT)
VERSION = re.search(r'VERSION "(.*)"', (ROOT / "version.h").read_text()).group(1)


def call(*command, **keywords):
    """Its output. With no environment but PATH: this may run below another make."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, env={"PATH": os.environ["PATH"]}, **keywords)
    assert done.returncode == 0, "%s:\n%s" % (command, done.stdout)
    return done.stdout


def files_of(path, *without):
    return {str(file.relative_to(path)): file.lstat().st_mtime_ns for file in path.rglob("*")
            if not file.is_dir() and file.relative_to(path).parts[0] not in without}


@pytest.fixture(scope="module")
def package():
    call("make", "-s", "-C", ROOT, "treewrap", "treewrapctl")
    before = files_of(ROOT, "build", ".git")
    call("make", "-s", "-C", ROOT, "deb")
    assert files_of(ROOT, "build", ".git") == before, "the tree is not as it was"
    found, = (ROOT / "build/deb").glob("treewrap_%s_*.deb" % VERSION)
    return found


def test_no_package_of_another_version(package):
    done = subprocess.run(["make", "-s", "-C", ROOT, "deb", "VERSION=9.9"], capture_output=True,
                          text=True, timeout=60, env={"PATH": os.environ["PATH"]})
    assert done.returncode != 0 and "version.h says 9.9, debian/changelog %s" % VERSION in done.stderr
    assert package.exists()


@pytest.fixture
def root(tmp_path):
    """The machine's packages, as far as dpkg knows: none of their files."""
    place = tmp_path / "var/lib/dpkg"
    for name in ("info", "updates", "triggers", "parts", "alternatives"):
        (place / name).mkdir(parents=True)
    shutil.copy("/var/lib/dpkg/status", place)
    (place / "info/format").write_text("1\n")
    if os.path.exists("/var/lib/dpkg/arch"):
        shutil.copy("/var/lib/dpkg/arch", place)
    return tmp_path


def dpkg(root, *words):
    # It looks for programs that maintainers' scripts may want.
    return call("dpkg", "--root=%s" % root, "--log=/dev/null", "--force-not-root", *words)


def test_lintian_finds_no_error(package):
    text = subprocess.run(["lintian", "--fail-on", "error", package], capture_output=True,
                          text=True, timeout=120)
    assert text.returncode == 0 and not re.search("^E:", text.stdout, re.MULTILINE), text.stdout


def test_it_depends_on_what_it_is_linked_with(package):
    depends = call("dpkg-deb", "-f", package, "Depends")
    assert {"libc6", "libcap-ng0", "libjansson4"} <= set(re.findall(r"[a-z0-9.-]+", depends))
    assert call("dpkg-deb", "-f", package, "Version").strip() == VERSION


def test_install_and_remove(package, root, mark):
    before = set(files_of(root, "var"))
    dpkg(root, "-i", package)
    installed = set(files_of(root, "var"))
    share, doc = "usr/share/", "usr/share/doc/treewrap/"
    assert installed - before >= {
        "usr/bin/treewrap", "usr/bin/treewrapctl",
        share + "man/man1/treewrap.1.gz", share + "man/man1/treewrapctl.1.gz",
        share + "bash-completion/completions/treewrap",
        share + "bash-completion/completions/treewrapctl",
        share + "zsh/vendor-completions/_treewrap",
        share + "fish/vendor_completions.d/treewrap.fish",
        share + "fish/vendor_completions.d/treewrapctl.fish",
        doc + "copyright", doc + "README.md.gz", doc + "security.md.gz",
        doc + "status.schema.json"}
    assert "install ok installed" in dpkg(root, "-s", "treewrap")
    for name in ("treewrap", "treewrapctl"):
        assert call(root / "usr/bin" / name, "--version").strip() == "%s %s" % (name, VERSION)
        assert "mandoc" not in call("mandoc", "-T", "lint", "-W", "warning",
                                    root / share / "man/man1" / (name + ".1.gz"))
    call(root / "usr/bin/treewrap", "sh", "-c", "setsid sleep 100 & : %s" % mark)
    tw.assert_nothing_left(mark)

    dpkg(root, "-r", "treewrap")
    assert set(files_of(root, "var")) == before
    dpkg(root, "-P", "treewrap")
    assert not list((root / "var/lib/dpkg/info").glob("treewrap*"))
    assert not (root / "usr").exists(), "directories are left"


def test_it_takes_no_package_without_what_it_needs(package, root):
    status = root / "var/lib/dpkg/status"
    parts = [part for part in status.read_text().split("\n\n")
             if not part.startswith("Package: libjansson4\n")]
    status.write_text("\n\n".join(parts))
    done = subprocess.run(["dpkg", "--root=%s" % root, "--log=/dev/null", "-i", package],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "libjansson4" in done.stderr


@pytest.fixture(scope="module")
def tarball():
    call("make", "-s", "-C", ROOT, "dist")
    found, = (ROOT / "build/dist").glob("treewrap-%s-linux-*.tar.gz" % VERSION)
    return found


def test_tarball(tarball, tmp_path):
    call("sha256sum", "-c", tarball.name + ".sha256", cwd=tarball.parent)
    call("tar", "-xf", tarball, "-C", tmp_path)
    place = tmp_path / tarball.name[:-len(".tar.gz")]
    assert "bin/treewrap: OK" in call("sha256sum", "-c", "SHA256SUMS", cwd=place)
    listed = {line.split("  ./")[1] for line in (place / "SHA256SUMS").read_text().splitlines()}
    links = {name for name in files_of(place) if (place / name).is_symlink()}
    assert listed == set(files_of(place)) - {"SHA256SUMS"} - links
    assert {"LICENSE", "licenses/libcap-ng-dev", "README.md", "docs/recipes.md",
            "docs/security.md", "share/man/man1/treewrap.1"} <= listed
    for name in ("treewrap", "treewrapctl"):
        assert "INTERP" not in call("readelf", "-lW", place / "bin" / name)
        assert call(place / "bin" / name, "--version").strip() == "%s %s" % (name, VERSION)
    # They need nothing of the place that they run in.
    (place / "proc").mkdir()
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c",
                           "mount -t proc proc proc && exec chroot . /bin/treewrap /bin/treewrap "
                           "/bin/treewrapctl --version"], cwd=place, capture_output=True, timeout=60)
    assert done.stdout.split() == [b"treewrapctl", VERSION.encode()], done


def test_tarball_is_the_same_each_time(tarball, tmp_path):
    """In another folder: other tests run what is built in this one."""
    other = tmp_path / "other"
    without = shutil.ignore_patterns(".git", "treewrap-static", "deb", "dist", "worlds", "e2e")
    shutil.copytree(ROOT, other, symlinks=True, ignore=lambda directory, names: (
        without(directory, names) if directory in (str(ROOT), str(ROOT / "build")) else []))
    call("make", "-s", "-C", other, "dist")
    made, = (other / "build/dist").glob("*.tar.gz")
    assert made.read_bytes() == tarball.read_bytes()
