"""Adult (OpenML 1590) as scikit-learn's fetch_openml keeps it, from the two files of UCI.

    python openml_adult.py RAW OUT

The description of the columns comes with scikit-learn: its own tests have it. OpenML's rows are
those of adult.test and then those of adult.data, without the full stops in adult.test.
"""

import gzip
import hashlib
import json
import sys
from pathlib import Path
from urllib.parse import urlparse

import sklearn

DATA_ID = 1590
FIXTURES = (
    Path(sklearn.__file__).parent / "datasets" / "tests" / "data" / "openml" / f"id_{DATA_ID}"
)
LISTING = "api/v1/json/data/list/data_name/adult/limit/2/data_version/2"
LISTED = {"did": DATA_ID, "name": "adult", "version": 2, "status": "active", "format": "ARFF"}


def rows(path: Path) -> list[str]:
    """The records of one file; the first line of adult.test is a comment."""
    lines = path.read_text().splitlines()
    return [line.rstrip(".") for line in lines if line.strip() and not line.startswith("|")]


def fixture(name: str) -> bytes:
    """One of the files that scikit-learn ships."""
    return gzip.decompress((FIXTURES / name).read_bytes())


if __name__ == "__main__":
    raw, out = map(Path, sys.argv[1:3])
    header = fixture("data-v1-dl-1595261.arff.gz").decode().partition("@data")[0]
    newline = "\r\n" if "\r\n" in header else "\n"
    records = [*rows(raw / "adult.test"), *rows(raw / "adult.data")]
    table = (header + newline.join(["@data", *records, ""])).encode()
    about = json.loads(fixture("api-v1-jd-1590.json.gz"))
    about["data_set_description"]["md5_checksum"] = hashlib.md5(table).hexdigest()
    address = urlparse(about["data_set_description"]["url"]).path.lstrip("/")
    files = {
        LISTING: json.dumps({"data": {"dataset": [LISTED]}}).encode(),
        f"api/v1/json/data/{DATA_ID}": json.dumps(about).encode(),
        f"api/v1/json/data/features/{DATA_ID}": fixture("api-v1-jdf-1590.json.gz"),
        f"api/v1/json/data/qualities/{DATA_ID}": fixture("api-v1-jdq-1590.json.gz"),
        address: table,
    }
    for name, content in files.items():
        path = out / "openml" / "openml.org" / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content, mtime=0))
