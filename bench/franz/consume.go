package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type arrival struct {
	number uint64
	nanos  int64
}

// Reads so many records from the beginning of all partitions with franz-go's defaults. Prints records, bytes of keys and
// values, seconds, polls; then, if timed, the number of each record and when it was there.
func consume(address, topic string, partitions, records, pollRecords int, timed bool) {
	began := time.Now()
	assigned := make(map[int32]kgo.Offset)
	for partition := range partitions {
		assigned[int32(partition)] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assigned}),
	)
	if err != nil {
		log.Fatal(err)
	}
	seen, bytes, polls := 0, 0, 0
	var arrivals []arrival
	for seen < records {
		// Zero means without a limit.
		fetches := client.PollRecords(context.Background(), pollRecords)
		now := time.Now().UnixNano()
		if err := fetches.Err(); err != nil {
			log.Fatal(err)
		}
		polls++
		fetches.EachRecord(func(record *kgo.Record) {
			seen++
			bytes += len(record.Key) + len(record.Value)
			if timed {
				arrivals = append(arrivals, arrival{binary.BigEndian.Uint64(record.Value), now})
			}
		})
	}
	seconds := time.Since(began).Seconds()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintln(out, seen, bytes, seconds, polls)
	for _, arrival := range arrivals {
		fmt.Fprintln(out, arrival.number, arrival.nanos)
	}
}
