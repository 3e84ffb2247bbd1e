"""Bringing applications into `componentsRoot`: archives, packages, the switch between two versions (spec: deployment).

    names.py       names of projects, paths of files in them
    unpacking.py   unpacking archives of others
    tar_reader.py  the members of a tar archive, within limits
    packing.py     packing a directory
    layout.py      where versions, journals and payloads are
    switching.py   from one version to the next, whatever happens in between
    commands.py    running programs, with an end
    requirements.py, installing.py   third-party packages
    loaded_packages.py   which of them this process has imported already
    references.py, fetching.py       where `package` points, and getting it
    trial.py, trying.py              loading a version in a process of its own
    deployment.py  the steps of one deployment

All of it blocks, and runs on threads of its own.
"""
