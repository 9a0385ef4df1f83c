// Enqueues push jobs. Needs Debian's package node-redis, or: npm install redis (version 4 or newer)
// Usage: REDIS_PORT=6379 QUEUE=apns_queue TOKEN=… node push.js
const { createClient } = require("redis");

const queue = process.env.QUEUE ?? "apns_queue";
const token = process.env.TOKEN ?? "0a1b2c";
const host = process.env.REDIS_HOST ?? "127.0.0.1";
const port = Number(process.env.REDIS_PORT ?? 6379);

async function main() {
  const server = createClient({ socket: { host, port } });
  await server.connect();
  const enqueue = (job) => server.rPush(queue, JSON.stringify(job));

  // An alert.
  await enqueue({ token, identifier: 1, data: { aps: { alert: "Hello" } } });

  // A silent push: content-available without an alert. Its push type is background and its priority is 5.
  await enqueue({ token, identifier: 2, data: { aps: { "content-available": 1 }, sync: true } });

  // The same content for several devices.
  await enqueue({ tokens: [token, token + "00"], identifier: 3, data: { aps: { alert: "News" } } });

  // An update of a Live Activity, with the token of the activity. The daemon adds the suffix to the topic.
  const state = { timestamp: Math.floor(Date.now() / 1000), event: "update", "content-state": { score: "2:1" } };
  await enqueue({ token, identifier: 4, push_type: "liveactivity", data: { aps: state } });

  // A campaign: the tokens of its devices, a million or more, go to a key of their own in pipelined commands.
  const key = `{${queue}}:audience:${process.pid}`;
  const size = Number(process.env.AUDIENCE ?? 1000);
  for (let first = 0; first < size; first += 10000) {
    const batch = server.multi();
    for (let number = first; number < Math.min(first + 10000, size); number++) {
      batch.rPush(key, number.toString(16).padStart(64, "0"));
    }
    await batch.exec();
  }
  await enqueue({ tokens_from: key, identifier: 5, data: { aps: { alert: "To all" } } });

  // Feedback: the tokens that are dead or suspect. LPOP removes what it returns.
  const entries = await server.sendCommand(["LPOP", `{${queue}}:gapless:feedback`, "100"]);
  for (const entry of entries ?? []) {
    const { verdict, token, reason } = JSON.parse(entry);
    console.log(verdict, token, reason);
  }
  await server.quit();
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
