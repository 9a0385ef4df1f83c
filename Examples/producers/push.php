<?php
// Enqueues push jobs. Needs Debian's package php-redis, or: pecl install redis
// Usage: REDIS_PORT=6379 QUEUE=apns_queue TOKEN=… php push.php
$queue = getenv("QUEUE") ?: "apns_queue";
$token = getenv("TOKEN") ?: "0a1b2c";
$server = new Redis();
$server->connect(getenv("REDIS_HOST") ?: "127.0.0.1", (int) (getenv("REDIS_PORT") ?: 6379));
$enqueue = fn(array $job) => $server->rPush($queue, json_encode($job));

// An alert.
$enqueue(["token" => $token, "identifier" => 1, "data" => ["aps" => ["alert" => "Hello"]]]);

// A silent push: content-available without an alert. Its push type is background and its priority is 5.
$enqueue(["token" => $token, "identifier" => 2, "data" => ["aps" => ["content-available" => 1], "sync" => true]]);

// The same content for several devices.
$enqueue(["tokens" => [$token, $token . "00"], "identifier" => 3, "data" => ["aps" => ["alert" => "News"]]]);

// An update of a Live Activity, with the token of the activity. The daemon adds the suffix to the topic.
$state = ["timestamp" => time(), "event" => "update", "content-state" => ["score" => "2:1"]];
$enqueue(["token" => $token, "identifier" => 4, "push_type" => "liveactivity", "data" => ["aps" => $state]]);

// A campaign: the tokens of its devices, a million or more, go to a key of their own in pipelined commands.
$key = "{" . $queue . "}:audience:" . getmypid();
$size = (int) (getenv("AUDIENCE") ?: 1000);
for ($first = 0; $first < $size; $first += 10000) {
    $pipeline = $server->multi(Redis::PIPELINE);
    for ($number = $first; $number < min($first + 10000, $size); $number++) {
        $pipeline->rPush($key, sprintf("%064x", $number));
    }
    $pipeline->exec();
}
$enqueue(["tokens_from" => $key, "identifier" => 5, "data" => ["aps" => ["alert" => "To all"]]]);

// Feedback: the tokens that are dead or suspect. LPOP removes what it returns.
foreach ($server->rawCommand("LPOP", "{" . $queue . "}:gapless:feedback", "100") ?: [] as $entry) {
    $feedback = json_decode($entry, true);
    echo $feedback["verdict"], " ", $feedback["token"], " ", $feedback["reason"], "\n";
}
