"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# The same examples at every run, however slow the machine: a test must not fail by chance. The fuzz targets look for what is new.
settings.register_profile(
    "svc",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
settings.load_profile("svc")
