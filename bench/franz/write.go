package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type writing struct {
	address, topic string
	records        int
	values         [][]byte
	codec          string
	keys           int
	// One record at a time, each acknowledged before the next.
	timed bool
}

// Writes so many records. Prints records, bytes of keys and values, seconds; then, if timed, the number of each record and
// the nanoseconds that it took.
func write(job writing) {
	began := time.Now()
	client, err := kgo.NewClient(options(job)...)
	if err != nil {
		log.Fatal(err)
	}
	var times []time.Duration
	if job.timed {
		times = oneAtATime(client, job)
	} else {
		allAtOnce(client, job)
	}
	seconds := time.Since(began).Seconds()
	size := len(job.values[0])
	if job.keys > 0 {
		size += 8
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintln(out, job.records, job.records*size, seconds)
	for number, took := range times {
		fmt.Fprintln(out, number, took.Nanoseconds())
	}
}

func options(job writing) []kgo.Opt {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(),
		"lz4":  kgo.Lz4Compression(),
		"zstd": kgo.ZstdCompression(),
	}
	codec, known := codecs[job.codec]
	if !known {
		log.Fatalf("no codec %s", job.codec)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(job.address),
		kgo.DefaultProduceTopic(job.topic),
		kgo.ProducerBatchCompression(codec),
	}
	if job.timed {
		options = append(options, kgo.ProducerLinger(0))
	}
	return options
}

func allAtOnce(client *kgo.Client, job writing) {
	var acknowledged atomic.Int64
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			log.Fatal(err)
		}
		acknowledged.Add(1)
	}
	for number := range job.records {
		client.Produce(context.Background(), record(job, number), done)
	}
	if err := client.Flush(context.Background()); err != nil {
		log.Fatal(err)
	}
	if acknowledged.Load() != int64(job.records) {
		log.Fatalf("only %d of %d records were acknowledged", acknowledged.Load(), job.records)
	}
}

func oneAtATime(client *kgo.Client, job writing) []time.Duration {
	times := make([]time.Duration, job.records)
	for number := range job.records {
		began := time.Now()
		if err := client.ProduceSync(context.Background(), record(job, number)).FirstErr(); err != nil {
			log.Fatal(err)
		}
		times[number] = time.Since(began)
	}
	return times
}

func record(job writing, number int) *kgo.Record {
	record := &kgo.Record{Value: job.values[number%len(job.values)]}
	if job.keys > 0 {
		record.Key = binary.BigEndian.AppendUint64(nil, uint64(number%job.keys))
	}
	return record
}

// Cuts the file of values into pieces of one size.
func values(path string, size int) [][]byte {
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	values := make([][]byte, len(text)/size)
	for i := range values {
		values[i] = text[i*size : (i+1)*size]
	}
	return values
}
