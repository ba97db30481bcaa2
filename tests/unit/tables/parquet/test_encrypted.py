"""Encrypted data files are refused by name; pyarrow would abort the process at some of them."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet.encryption as pe
import pytest

import tailbit
from support.hudi_builder import HudiBuilder
from tailbit.errors import DataFileError

ROWS = pa.table({"k": range(5), "city": ["a", "b", "c", "a", "b"]})


class OpenKeys(pe.KmsClient):
    """A store of keys that locks nothing."""

    def wrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64decode(key)


def encryption(plaintext_footer: bool) -> Any:
    """Encrypt the column `city`, and the footer unless it is to stay as it is."""
    configuration = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["city"]}, plaintext_footer=plaintext_footer
    )
    factory = pe.CryptoFactory(lambda _: OpenKeys())
    return factory.file_encryption_properties(pe.KmsConnectionConfig(), configuration)


@pytest.mark.supports_hudi("Files", "encrypted files, also of some columns alone", "refused")
@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_an_encrypted_file_is_refused_by_name(tmp_path: Path, plaintext_footer: bool) -> None:
    builder = HudiBuilder(str(tmp_path / "table"), 9, random.Random(1))
    requested = builder.timeline.request()
    how = {"encryption_properties": encryption(plaintext_footer)}
    file, _ = builder.data_file(ROWS, requested, builder.new_group(), "", **how)
    builder.commit(requested, [file], ROWS.schema, "INSERT")
    said = "its columns are encrypted" if plaintext_footer else "its footer is encrypted"
    for condition in (None, "k = 1", "city = 'a'"):
        with pytest.raises(DataFileError, match=said) as raised:
            tailbit.open(tmp_path / "table").where(condition).read()
        assert "without encryption" in raised.value.hint
