// Enqueues push jobs. Needs the module github.com/redis/go-redis/v9.
// Usage: REDIS_PORT=6379 QUEUE=apns_queue TOKEN=… go run push.go
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

type object = map[string]any

func environment(name, standard string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return standard
}

func main() {
	ctx := context.Background()
	queue := environment("QUEUE", "apns_queue")
	token := environment("TOKEN", "0a1b2c")
	server := redis.NewClient(&redis.Options{
		Addr: environment("REDIS_HOST", "127.0.0.1") + ":" + environment("REDIS_PORT", "6379"),
	})
	enqueue := func(job object) {
		bytes, err := json.Marshal(job)
		if err != nil {
			log.Fatal(err)
		}
		if err := server.RPush(ctx, queue, bytes).Err(); err != nil {
			log.Fatal(err)
		}
	}

	// An alert.
	enqueue(object{"token": token, "identifier": 1, "data": object{"aps": object{"alert": "Hello"}}})

	// A silent push: content-available without an alert. Its push type is background and its priority is 5.
	enqueue(object{"token": token, "identifier": 2, "data": object{"aps": object{"content-available": 1}, "sync": true}})

	// The same content for several devices.
	enqueue(object{"tokens": []string{token, token + "00"}, "identifier": 3, "data": object{"aps": object{"alert": "News"}}})

	// An update of a Live Activity, with the token of the activity. The daemon adds the suffix to the topic.
	state := object{"timestamp": time.Now().Unix(), "event": "update", "content-state": object{"score": "2:1"}}
	enqueue(object{"token": token, "identifier": 4, "push_type": "liveactivity", "data": object{"aps": state}})

	// A campaign: the tokens of its devices, a million or more, go to a key of their own in pipelined commands.
	key := fmt.Sprintf("{%s}:audience:%d", queue, os.Getpid())
	size, err := strconv.Atoi(environment("AUDIENCE", "1000"))
	if err != nil {
		log.Fatal(err)
	}
	pipeline := server.Pipeline()
	for number := 0; number < size; number++ {
		pipeline.RPush(ctx, key, fmt.Sprintf("%064x", number))
		if pipeline.Len() == 10000 || number == size-1 {
			if _, err := pipeline.Exec(ctx); err != nil {
				log.Fatal(err)
			}
		}
	}
	enqueue(object{"tokens_from": key, "identifier": 5, "data": object{"aps": object{"alert": "To all"}}})

	// Feedback: the tokens that are dead or suspect. LPOP removes what it returns.
	entries, err := server.LPopCount(ctx, "{"+queue+"}:gapless:feedback", 100).Result()
	if err != nil && err != redis.Nil {
		log.Fatal(err)
	}
	for _, entry := range entries {
		var feedback struct{ Verdict, Token, Reason string }
		if err := json.Unmarshal([]byte(entry), &feedback); err != nil {
			log.Fatal(err)
		}
		fmt.Println(feedback.Verdict, feedback.Token, feedback.Reason)
	}
}
