"""Local paths and URIs of remote files, such as ``s3://bucket/preds.parquet``.

`as_location` returns a `pathlib.Path` for a local path and a `RemotePath` for a URI. pyarrow connects to s3, gs, abfs
and hdfs; fsspec, if it is installed, to all other schemes it knows, such as http and memory. Nothing is connected
before a file of the URI is looked up, read or written.
"""

import importlib.util
import mimetypes
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from orcu.errors import InputError, first_line

ARROW_SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
BUCKET_STORES = ("s3", "gcs", "abfs")  # of pyarrow: an object appears when it is complete, and nothing can be renamed
# Extras of fsspec that install what a scheme needs.
FSSPEC_EXTRAS = ("adl", "dropbox", "gcs", "git", "github", "gs", "http", "oci", "s3", "sftp", "smb", "ssh")
DATA_SUFFIXES = {"Parquet": (".parquet",), "CSV": (".csv", ".csv.gz", ".tsv", ".tsv.gz")}  # of files in folders
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<host>[^/?]*)/?(?P<key>[^?]*)(?P<query>\?.*)?", re.DOTALL)
_USER = re.compile(r"(?<=://)[^/?\s]*@")
_PARAMETER = re.compile(r"([?&][^=&\s]+=)[^&\s,]+")


@dataclass(frozen=True)
class RemotePath:
    """File or folder at a URI, with the methods of `pathlib.Path` that readers and writers use.

    Its text has no credentials: the user, the password and the values of the query are left out.

    Example:
        >>> path = as_location("s3://key:secret@bucket/runs/preds.parquet?region=eu-west-1")
        >>> str(path), path.name, path.suffix
        ('s3://bucket/runs/preds.parquet', 'preds.parquet', '.parquet')
    """

    scheme: str
    host: str  # bucket, container or server, also with a user and password
    key: str  # path below the host
    query: str = ""  # options such as "?endpoint_override=localhost:9000"

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __str__(self) -> str:
        # The part before @ is the container in abfs://container@account, and a user elsewhere.
        user, _, host = self.host.rpartition("@")
        shown = f"{user.split(':')[0]}@{host}" if user and self.scheme.startswith("abfs") else host
        return f"{self.scheme}://{shown}/{self.key}"

    def __fspath__(self) -> str:
        """Return the complete URI; it may contain credentials."""
        return f"{self.scheme}://{self.host}/{self.key}{self.query}"

    def __truediv__(self, name: str) -> "RemotePath":
        return replace(self, key=f"{self.key.rstrip('/')}/{name}".lstrip("/"))

    @property
    def name(self) -> str:
        """Last part of the path; the bucket or server if there is no other."""
        return PurePosixPath(self.key).name or self.host.rpartition("@")[2]

    @property
    def suffix(self) -> str:
        """Ending of the name, such as ".parquet"."""
        return PurePosixPath(self.name).suffix

    def absolute(self) -> "RemotePath":
        """Return the path itself."""
        return self

    def resolve(self) -> "RemotePath":
        """Return the path without a slash at its end."""
        return replace(self, key=self.key.rstrip("/"))

    def is_relative_to(self, other: object) -> bool:
        """Whether the path is in the folder ``other``."""
        if not isinstance(other, RemotePath) or (self.scheme, self.host) != (other.scheme, other.host):
            return False
        return PurePosixPath(self.key).is_relative_to(other.key)

    def is_file(self) -> bool:
        """Whether there is a file."""
        return self._type() == "File"

    def is_dir(self) -> bool:
        """Whether there is a folder; in a bucket, whether names of files start with it."""
        return self._type() == "Directory"

    def exists(self) -> bool:
        """Whether there is a file or folder."""
        return self._type() != "NotFound"

    def check_writable(self) -> None:
        """Raise `InputError` if a file cannot be written: to a web server, or in a bucket that does not exist."""
        if self.scheme in ("http", "https"):
            raise InputError(f"{self}: files are only read from a web server; choose another output.")
        if self._has_bucket and not replace(self, key="").exists():
            raise InputError(f"{self}: {self.missing_reason()}; create it first.")

    @property
    def _has_bucket(self) -> bool:
        return self.scheme in ARROW_SCHEMES[:5]

    def missing_reason(self) -> str:
        """Say what does not exist: the bucket or container, or the file within it."""
        bucket = replace(self, key="")
        if self._has_bucket and self.key and not bucket.exists():
            return f"there is no bucket or container {bucket.name!r}"
        return "there is no such file"

    def open(self) -> Any:
        """Open the file for reading bytes, at any position."""
        with self.errors():
            filesystem, path = self._connect()
            return filesystem.open_input_file(path)

    def open_stream(self) -> Any:
        """Open the file for reading bytes in order; .gz is decompressed."""
        with self.errors():
            filesystem, path = self._connect()
            # Not detected, because the path of a web address ends in its query.
            return filesystem.open_input_stream(path, compression="gzip" if self.name.lower().endswith(".gz") else None)

    def read_text(self) -> str:
        """Read a text in UTF-8."""
        with self.open() as file, self.errors():
            return bytes(file.read()).decode()

    def files(self) -> "list[RemotePath]":
        """List the files of the folder and its subfolders."""
        from pyarrow.fs import FileSelector, FileType

        with self.errors():
            filesystem, path = self._connect()
            found = filesystem.get_file_info(FileSelector(path, recursive=True))
        start = len(path.strip("/"))
        return [self / info.path.strip("/")[start:].strip("/") for info in found if info.type == FileType.File]

    @contextmanager
    def writer(self) -> Iterator[Path]:
        """Yield a local temporary path, whose file is uploaded in one piece when the block ends.

        A bucket shows an object when its upload is complete. Other file systems get a temporary file, which is renamed.
        """
        with tempfile.TemporaryDirectory() as folder:
            temporary = Path(folder, "upload.part")
            temporary.touch()
            yield temporary
            content = temporary.read_bytes()
        with self.errors("cannot be written"):
            filesystem, path = self._connect()
            if filesystem.type_name in BUCKET_STORES:
                # A browser shows a report of this type.
                kind, encoding = mimetypes.guess_type(self.name)
                kind = None if encoding or filesystem.type_name != "s3" else kind
                _upload(filesystem, path, content, {"Content-Type": kind} if kind else None)
                return
            folder, _, name = path.rpartition("/")
            part = f"{folder}/.{name}.{os.urandom(8).hex()}.part"
            try:
                _upload(filesystem, part, content)
                filesystem.move(part, path)
            except BaseException:
                from pyarrow.fs import FileType

                if filesystem.get_file_info(part).type != FileType.NotFound:
                    filesystem.delete_file(part)
                raise

    @contextmanager
    def errors(self, problem: str = "cannot be read") -> Iterator[None]:
        """Turn errors of file systems, which have types of many libraries, into `InputError` without credentials."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{self}: {problem} ({self._without_credentials(first_line(error))}).") from None

    def _without_credentials(self, text: str) -> str:
        user = self.host.rpartition("@")[0]
        secrets = [user, *user.split(":"), *re.findall(r"=([^&]+)", self.query)]
        for secret in sorted({*secrets, *map(unquote, secrets)} - {""}, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _type(self) -> str:
        with self.errors():
            filesystem, path = self._connect()
            return str(filesystem.get_file_info(path).type.name)

    def _connect(self) -> tuple[Any, str]:
        """Return the file system of pyarrow, and the path of the file in it."""
        try:
            filesystem, root = _arrow_filesystem(self.scheme, self.host, self.query)
            return filesystem, f"{root.rstrip('/')}/{self.key.rstrip('/')}".rstrip("/") or "/"
        except NotImplementedError:  # not a scheme of pyarrow, or one that it was built without
            pass
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        fsspec = self._fsspec()
        try:
            filesystem, path = fsspec.core.url_to_fs(os.fspath(self).rstrip("/"))
        except ImportError as error:
            from fsspec.registry import known_implementations

            extra = self.scheme in FSSPEC_EXTRAS
            module = known_implementations[self.scheme]["class"].split(".")[0]
            package = f'"fsspec[{self.scheme}]"' if extra or module == "fsspec" else module
            raise InputError(f"{self}: {first_line(error)}. Install it with: pip install {package}") from None
        return PyFileSystem(FSSpecHandler(filesystem)), path

    def _fsspec(self) -> Any:
        if importlib.util.find_spec("fsspec") is None:
            raise InputError(
                f"{self}: URIs of the scheme {self.scheme!r} need fsspec, which is not installed. Install it with: "
                "pip install fsspec"
            )
        import fsspec

        if self.scheme not in fsspec.available_protocols():
            raise InputError(
                f"{self}: unknown scheme {self.scheme!r}; expected a local path, or a URI such as s3://, gs://, "
                "abfs://, hdfs:// or https://."
            )
        return fsspec


Location = Path | RemotePath


def as_location(path: str | os.PathLike[str]) -> Location:
    """Return a local path or the path of a URI.

    Example:
        >>> as_location("preds.csv").name, as_location("file:///tmp/preds.csv").name
        ('preds.csv', 'preds.csv')
        >>> as_location("gs://bucket/day=1/preds.csv")
        RemotePath('gs://bucket/day=1/preds.csv')
    """
    if isinstance(path, Path | RemotePath):
        return path
    uri = _URI.fullmatch(os.fspath(path))
    if uri is None:
        return Path(path)
    scheme = uri["scheme"].lower()
    if scheme == "file":
        return Path(unquote("/" + uri["key"]))
    return RemotePath(scheme, uri["host"], uri["key"], uri["query"] or "")


def require_file(path: Location) -> None:
    """Raise `InputError` if there is no file, and say why."""
    if path.is_file():
        return
    if isinstance(path, RemotePath):
        raise InputError(f"{path}: {path.missing_reason()}.")
    hint = ""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/[^/]", os.fspath(path)):
        hint = " For a URI pass a text, because pathlib.Path removes a slash of '://'."
    raise InputError(f"{path}: there is no such file.{hint}")


def list_files(folder: Location) -> list[tuple[Location, str]]:
    """List the files of a folder and its subfolders, without hidden ones, with their names relative to the folder.

    They are in the order of these names. Files whose names start with "." or "_" are hidden.
    """
    if isinstance(folder, RemotePath):
        start = len(folder.key.rstrip("/"))
        found: list[tuple[Location, str]] = [(file, file.key[start:].lstrip("/")) for file in folder.files()]
    else:

        def fail(error: OSError) -> None:  # os.walk would skip the subfolder and its rows
            raise InputError(f"{error.filename}: cannot be read ({error.strerror}).")

        tree = os.walk(folder, onerror=fail, followlinks=True)
        paths = [Path(parent) / name for parent, _, names in tree for name in names]
        found = [(path, path.relative_to(folder).as_posix()) for path in paths]
    found = [(path, name) for path, name in found if not path.name.startswith((".", "_"))]
    return sorted(found, key=lambda item: item[1].split("/"))


def data_files(folder: Location) -> tuple[str, list[tuple[Location, str]], int]:
    """List the Parquet files of a folder and its subfolders, or the CSV files if there are none.

    Returns:
        "Parquet" or "CSV", the files with their names relative to the folder, and the number of other files.

    Raises:
        InputError: if there are none of either.
    """
    files = list_files(folder)
    for kind, suffixes in DATA_SUFFIXES.items():
        if found := [(path, name) for path, name in files if name.endswith(suffixes)]:
            return kind, found, len(files) - len(found)
    raise InputError(f"{folder}: there is no .parquet or .csv file in this folder.")


def partition_values(name: str) -> dict[str, str | None]:
    """Return the columns that the folders of a partitioned data set stand for; None is an empty cell.

    Example:
        >>> partition_values("site=north%20east/year=2026/part-0.parquet")
        {'site': 'north east', 'year': '2026'}
    """
    pairs = (folder.partition("=") for folder in name.split("/")[:-1] if "=" in folder)
    return {unquote(key): None if value == NULL_PARTITION else unquote(value) for key, _, value in pairs if key}


def hide_credentials(text: str) -> str:
    """Replace users, passwords and the values of queries in the URIs of a text.

    Example:
        >>> hide_credentials("old=s3://key:secret@bucket/p.csv?region=eu,probs=p_*")
        'old=s3://***@bucket/p.csv?region=***,probs=p_*'
    """
    return _PARAMETER.sub(r"\1***", _USER.sub("***@", text)) if "://" in text else text


@lru_cache(maxsize=64)
def _arrow_filesystem(scheme: str, host: str, query: str) -> tuple[Any, str]:
    if scheme not in ARROW_SCHEMES:
        raise NotImplementedError
    from pyarrow.fs import FileSystem

    filesystem, root = FileSystem.from_uri(f"{scheme}://{host}/{query}")
    return filesystem, root


def _upload(filesystem: Any, path: str, content: bytes, metadata: dict[str, str] | None = None) -> None:
    stream = filesystem.open_output_stream(path, compression=None, metadata=metadata)
    stream.write(content)  # not in a with block, which would complete the file after an error
    stream.close()
