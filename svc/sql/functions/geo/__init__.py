"""GeoJSON: geometries, measures on a sphere, relations in the plane of the coordinates."""
