"""Jobs of applications that run at set times: cron expressions and intervals, at most once for each time over all processes of a data directory.

schedules    when: cron expressions and intervals -> moments
job          what: the entry `scheduler` of a config.yaml -> jobs, with their functions
job_state    what has become of them: the tables svc_scheduler_state and svc_scheduler_history
scheduler    timers, claims, runs
"""

from svc.scheduler.job import JobRun, JobSpec, bind_handler, read_jobs
from svc.scheduler.scheduler import Scheduler

__all__ = ["JobRun", "JobSpec", "Scheduler", "bind_handler", "read_jobs"]
