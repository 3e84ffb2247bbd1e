// Times in the zone of the reader: `<time datetime="2026-01-01T00:00:00.000Z">`. The server writes them in UTC, which stays in the title.

export function localTimes(root) {
  for (const each of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(each.dateTime);
    if (!Number.isNaN(moment.getTime())) each.textContent = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  }
}

localTimes(document);
