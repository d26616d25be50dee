"""Gold tells no secret among configs: Spark follows the library's rule, name by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from deploy.spark import HOW_TO_GET, is_installed
from quorate.controller.secrets import PUBLIC, is_secret
from tests.controller.test_secrets import PASSWORDS, TABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(not is_installed(), reason=HOW_TO_GET),
]

NAMES: Final = sorted({*PASSWORDS, *(name for _, name in TABLE)}.union(*PUBLIC.values()))
PREFIXES: Final = ("", "listener.name.a.", "listener.name.a.plain.", "listener.name.", "a.listener.name.a.", "plain.")


def test_spark_follows_the_rule(spark: SparkSession) -> None:
    from pyspark.sql import functions as fn

    from services.pipeline.gold import secrets

    kinds = sorted({kind for kind, _ in TABLE})
    asked = [(kind, prefix + name) for kind in kinds for prefix in PREFIXES for name in NAMES]
    rows = spark.createDataFrame(asked, "kind int, name string")
    found = rows.withColumn("secret", secrets.is_secret(fn.col("kind"), fn.col("name"))).collect()

    assert {each: is_secret(*each) for each in asked} == {(row["kind"], row["name"]): row["secret"] for row in found}
