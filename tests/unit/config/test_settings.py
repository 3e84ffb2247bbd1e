"""SETTINGS is complete and consistent, and documented."""

from pathlib import Path

import pytest

from svc.config.reference import PAGES, former_reference, reference, settings_text
from svc.config.setting import From
from svc.config.settings import BY_NAME, DEVELOPMENT, LEGACY, SETTINGS, WITHOUT_EFFECT, override_names
from svc.config.values import PARSERS

# The tables of the specification, configuration §2.
CONTRACT = """
rootPath componentsRoot node.hostname instances node.url ignoreScripts serialization.bigInt
http: port securePort host trustedProxies cors corsAccessList corsAccessControlAllowHeaders compressionThreshold timeout headersTimeout keepAliveTimeout
    maxHeaderSize maxRequestBodySize requestQueueLimit mtls http2 sessionAffinity logging
operationsApi: network.port network.securePort network.host network.cors network.corsAccessList network.domainSocket network.timeout network.headersTimeout
    network.keepAliveTimeout network.http2 network.mtls tls componentFile.maxSize sysInfo.network sysInfo.disk importRoots importHosts
authentication: authorizeLocal cacheTTL enableSessions operationTokenTimeout refreshTokenTimeout hashFunction passwordMinLength
    cookie.domains cookie.expires failureDelay logging
tls: certificate privateKey certificateAuthority host hosts ciphers uses logging
mqtt: network.port network.securePort network.host network.mtls webSocket requireAuthentication maxPacketSize freeTopics logging
logging: level file root path stdStreams console colors auditLog auditRetention external rotation.enabled rotation.compress rotation.interval
    rotation.maxSize rotation.path rotation.retention auditAuthEvents.logFailed auditAuthEvents.logSuccessful
storage: path blobPaths backupPath writeAsync maxTransactionQueueTime caching compression compactOnStart compactOnStartKeepBackup
    reclamation.threshold reclamation.interval reclamation.evictionFactor debugLongTransactions engine noReadAhead prefetchWrites pageSize
    overlappingSync maxFreeSpaceToLoad maxFreeSpaceToRetain rocks logging
databases: <db>.path <db>.auditPath <db>.tables.<t>.path
analytics: aggregatePeriod storageInterval replicate logging
localStudio: enabled
replication: hostname url databases replicateTo routes port securePort enableRootCAs blobTimeout blobSendDrainTimeout failOver shard
    copyTablesToCatchUp mtls.certificateVerification logging servers credentials streamReplicas confirmTimeout
mail: host port tls username password from
threads: maxHeapMemory heapSnapshotNearLimit debug preload preloadRequire
applications: lockdown moduleLoader dependencyLoader allowedSpawnCommands
license: region mode
"""
OPTIONAL_SYSTEMS = {"mcp", "models", "scheduler", "waf"}
OURS = {
    "http.requestAgeLimit",
    "mail.certificateAuthority",
    "mail.hourlyLimit",
    "mqtt.maxCatchUp",
    "replication.program",
    "logging.format",
    "operationsApi.metrics.access",
    "operationsApi.metrics.maxLabelSets",
    "query.maxBytes",
    "query.maxRelatedRows",
    "query.maxTime",
    "sql.access",
    "sql.maxLength",
    "sql.maxMemory",
    "sql.maxRows",
    "sql.maxTime",
    "storage.maxSnapshotAge",
    "storage.maxSnapshotGrowth",
    "tracing.enabled",
    "tracing.endpoint",
    "tracing.sample",
    "tracing.serviceName",
}
"""What the specification does not have."""


def contract_names() -> set[str]:
    names: set[str] = set()
    section = ""
    for word in CONTRACT.split():
        if word.endswith(":"):
            section = word[:-1] + "."
        else:
            names.add(section + word)
    return names


def test_every_setting_of_the_contract_has_a_row_and_there_are_no_others() -> None:
    assert {setting.name for setting in SETTINGS} == (contract_names() - set(WITHOUT_EFFECT)) | OPTIONAL_SYSTEMS | OURS
    assert not set(WITHOUT_EFFECT) & set(BY_NAME)
    assert len(BY_NAME) == len(SETTINGS)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_row_is_consistent(setting: object) -> None:
    row = BY_NAME[setting.name]  # type: ignore[attr-defined]
    assert row.kind in PARSERS
    assert row.sentence.endswith(".")
    if isinstance(row.default, From):
        assert row.default.name in BY_NAME
    if row.kind == "duration":
        assert row.unit in ("s", "ms")


def test_other_tables_name_settings() -> None:
    assert set(LEGACY.values()) <= set(BY_NAME)
    assert set(DEVELOPMENT) <= set(BY_NAME)


def test_no_two_settings_share_an_override_name() -> None:
    flat = [setting.name.replace(".", "_").lower() for setting in SETTINGS]
    assert len(set(flat)) == len(flat)
    todays = {name for name in override_names().values() if name in BY_NAME}
    assert todays == {setting.name for setting in SETTINGS if "<" not in setting.name}


def test_the_documentation_is_up_to_date() -> None:
    for name, make in PAGES.items():
        committed = Path(__file__).parents[3] / "docs" / name
        assert committed.read_text(encoding="utf-8") == make(), "run: python -m svc.config.reference docs"


def test_every_setting_is_documented() -> None:
    """Each on one of the two pages: what counts, or what does not belong into a new configuration."""
    text, former = reference(), former_reference()
    for setting in SETTINGS:
        row = f"\n| `{setting.name}` |"
        assert (row in text) is not (row in former), setting.name
    assert [name for name in WITHOUT_EFFECT if f"\n| `{name}` |" not in former] == []
    assert [old for old in LEGACY if f"\n| `{old}` |" not in former] == []
    assert not any(f"`{old}`" in text for old in LEGACY if old not in BY_NAME)
    assert "has no effect" not in text


def test_settings_on_the_terminal() -> None:
    assert settings_text("http.port").startswith("http.port (port, null; default 9926)")
    assert "mqtt" not in settings_text("http")
    assert settings_text("nonsense") == 'No setting begins with "nonsense".'
    assert "`" not in settings_text()
