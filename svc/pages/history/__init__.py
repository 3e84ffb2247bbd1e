"""What has become of one record (spec: http §7.8.3): `?_view=history`, and `&version=` for one entry, which can be restored."""
