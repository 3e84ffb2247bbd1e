-- Sends requests that the runner wrote into a file, and reports as one line of JSON.
--
-- The file holds complete requests, each after its length in decimal and a line feed. Preparing them outside keeps the client cheap, equal for all
-- servers, and the same requests can be checked one by one before they are measured.
-- REQUESTS names the file, SKIP how many requests to leave out at first. With ONCE=1 each request is sent once and then the thread stops, otherwise
-- they are sent round and round.

local requests, count, sent = {}, 0, tonumber(os.getenv("SKIP"))
local once = os.getenv("ONCE") == "1"

function init(args)
  local file = assert(io.open(os.getenv("REQUESTS"), "rb"))
  while true do
    local length = file:read("*l")
    if not length then break end
    count = count + 1
    requests[count] = file:read(tonumber(length))
  end
  file:close()
end

function request()
  sent = sent + 1
  if once and sent >= count then wrk.thread:stop() end
  return requests[(sent - 1) % count + 1]
end

function done(summary, latency, rates)
  local errors = summary.errors
  io.write(string.format(
    '\nRESULT {"requests":%d,"microseconds":%d,"bytes":%d,"p50":%d,"p99":%d,"worst":%d,"status_errors":%d,"socket_errors":%d}\n',
    summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99), latency.max,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
