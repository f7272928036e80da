package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Produces records of 1000 bytes with franz-go's defaults and prints the seconds that it took until all were
// acknowledged.
func produce(address, topic string, bytes int) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address),
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		log.Fatal(err)
	}
	value := make([]byte, 1000)
	acknowledged := func(_ *kgo.Record, err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	began := time.Now()
	for range bytes / len(value) {
		client.Produce(context.Background(), &kgo.Record{Value: value}, acknowledged)
	}
	if err := client.Flush(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(time.Since(began).Seconds())
}
