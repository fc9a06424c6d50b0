"""Any mapping becomes settings, or an error that names a key; writes need a real True."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dsh_lightrag import ConfigurationError, LightRagSettings

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["true", "1", "http://h", 1, 0, 10**400, -(10**400)])
)
NAMES = st.text(max_size=8) | st.sampled_from(["enabled", "topK"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
KNOWN = [*LightRagSettings.model_fields, "apiKey", "timeoutMs", "basePath", "useProxy"]
GROUP_KEYS = st.sampled_from(
    ["enabled", "topK", "mode", "maxTextBytes", "max_text_bytes", "maxListed", "maxAnswerBytes"]
)
GROUPS = st.dictionaries(GROUP_KEYS, SCALARS, max_size=3)
ROWS = st.dictionaries(
    st.sampled_from(KNOWN) | st.text(max_size=12), VALUES | GROUPS, max_size=5
) | st.fixed_dictionaries({"writes": GROUPS, "evidence": GROUPS})


def load(make):
    """Return settings or the refusal; anything else that rises is the failure of the test."""
    try:
        return make()
    except ConfigurationError as error:
        return error


@settings(max_examples=300, deadline=None)
@given(row=ROWS)
@example(row={"writes": {"enabled": 1}})
@example(row={"writes": {"enabled": "true"}})
@example(row={"writes": True})
@example(row={"writes": {"enabled": True}})
@example(row={"timeoutMs": 10**400})
@example(row={"endpoint": "http://h\x00"})
@example(row={"caFile": "\x00"})
def test_any_mapping_is_settings_or_an_error_naming_a_key(row):
    loaded = load(lambda: LightRagSettings(**row))
    if isinstance(loaded, ConfigurationError):
        assert loaded.key
        assert loaded.problem
    else:
        group = row.get("writes")
        wanted = isinstance(group, dict) and group.get("enabled") is True
        assert loaded.writes.enabled is wanted
        assert str(loaded.connection.origin) == loaded.endpoint


@settings(max_examples=150, deadline=None)
@given(row=VALUES)
def test_any_profile_value_is_settings_or_an_error(row):
    loaded = load(lambda: LightRagSettings.from_row(row))
    assert not isinstance(loaded, ConfigurationError) or loaded.key


@settings(max_examples=300, deadline=None)
@given(
    tail=st.text(alphabet="abAB01.:/@?#[]%\\ -_\t\n\x00é", max_size=25),
    scheme=st.sampled_from(["http://", "https://", "HTTP://", "ftp://", ""]),
)
def test_any_endpoint_is_a_bare_origin_or_refused(scheme, tail):
    loaded = load(lambda: LightRagSettings(endpoint=scheme + tail))
    if isinstance(loaded, ConfigurationError):
        assert loaded.key == "endpoint"
    else:
        endpoint = loaded.endpoint
        assert LightRagSettings(endpoint=endpoint).endpoint == endpoint
        authority = endpoint.partition("://")[2]
        assert not set(authority) & set("/@?#\\% \t\n")
