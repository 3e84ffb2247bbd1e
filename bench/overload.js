// The open loop of `bench.overload --k6`: RATE requests a second for SECONDS, to `TARGET`, however many are unanswered.
import http from "k6/http";
import { Counter, Trend } from "k6/metrics";

const good = new Counter("good"); // answered below a second
const refused = new Counter("refused");
const unanswered = new Counter("unanswered");
const other = new Counter("other");
const answered = new Trend("answered"); // ms, of 200

export const options = {
  discardResponseBodies: true,
  summaryTrendStats: ["p(50)", "p(99)"],
  scenarios: {
    open: {
      executor: "constant-arrival-rate",
      rate: Number(__ENV.RATE),
      timeUnit: "1s",
      duration: `${__ENV.SECONDS}s`,
      preAllocatedVUs: Number(__ENV.CLIENTS),
      maxVUs: Number(__ENV.CLIENTS),
    },
  },
};

const fields = { headers: { Authorization: __ENV.AUTHORIZATION, Accept: "application/json" }, timeout: "4s" };

export default function () {
  const response = http.get(__ENV.TARGET, fields);
  if (response.status === 200) {
    answered.add(response.timings.duration);
    if (response.timings.duration < 1000) good.add(1);
  } else if (response.status === 503) refused.add(1);
  else if (response.status === 0) unanswered.add(1);
  else other.add(1);
}

export function handleSummary(data) {
  const values = (name) => (data.metrics[name] ? data.metrics[name].values : { count: 0 });
  return {
    stdout: JSON.stringify({
      good: values("good").count,
      refused: values("refused").count,
      unanswered: values("unanswered").count,
      other: values("other").count,
      not_sent: values("dropped_iterations").count,
      p50: values("answered")["p(50)"],
      p99: values("answered")["p(99)"],
    }),
  };
}
